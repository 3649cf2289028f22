// The transports that the suite runs over: a new one joins with its name.
#pragma once

#include <gtest/gtest.h>

namespace kolo::test {

inline const auto kTransports = ::testing::Values("inproc", "shm", "tcp");

}  // namespace kolo::test
