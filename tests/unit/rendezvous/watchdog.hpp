// Ends a test program that hangs, and prints where.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

namespace kolo {

/// The default action of SIGALRM kills the process even if all its threads are blocked.
class RendezvousTest : public ::testing::Test {
 protected:
  void SetUp() override { ::alarm(60); }
  void TearDown() override { ::alarm(0); }
};

}  // namespace kolo
