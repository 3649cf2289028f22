// Ends a test program that hangs, with a word on where.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

namespace kolo {

/// alarm(2)'s default action kills the process, whatever its threads are waiting for.
class RendezvousTest : public ::testing::Test {
 protected:
  void SetUp() override { ::alarm(60); }
  void TearDown() override { ::alarm(0); }
};

}  // namespace kolo
