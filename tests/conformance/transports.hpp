// The transports that the suite runs over: a new one joins with its name.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace kolo::test {

inline const auto kTransports = ::testing::Values("inproc", "shm", "tcp");
inline const auto kTransportNames = [](const auto& info) { return std::string(info.param); };

}  // namespace kolo::test
