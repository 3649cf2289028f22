#include "net/hmac.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace kolo::test {
namespace {

// RFC 4231, case 2.
bool is_right() {
  const unsigned char expected[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
                                    0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
                                    0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
  return net::hmac("Jefe", "what do ya want for nothing?") ==
         std::string(reinterpret_cast<const char*>(expected), sizeof expected);
}

TEST(Hmac, IsThatOfTheStandard) {
  EXPECT_TRUE(is_right());
}

// Exit handlers run in reverse order, so this one runs after OpenSSL's own. A store's thread may also compute
// at that time.
TEST(Hmac, CanBeComputedWhileTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // runs in a process that has not used OpenSSL yet
  const auto end = [] {
    std::atexit([] { std::_Exit(is_right() ? 0 : 1); });
    std::exit(is_right() ? 2 : 3);
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kolo::test
