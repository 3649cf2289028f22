// The transports that a communicator may use.
#include "comm/settings.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kolo::test {
namespace {

std::vector<std::string> allowed(const std::string& named) {
  std::vector<std::string> names;
  for (const auto& factory : comm::allowed_transports({.transports = named}).value_or_throw())
    names.emplace_back(factory.name);
  return names;
}

TEST(AllowedTransports, AreAllOfTheRegistryIfNoneAreNamed) {
  EXPECT_EQ(allowed(""), transport::transport_names());
}

TEST(AllowedTransports, HaveTheOrderInWhichTheyAreNamed) {
  EXPECT_EQ(allowed("tcp,shm,tcp"), (std::vector<std::string>{"tcp", "shm"}));
}

TEST(AllowedTransports, ThatAreUnknownAreRefused) {
  for (const char* named : {"pigeon", "shm,pigeon", ",", "shm, tcp"})
    EXPECT_EQ(comm::allowed_transports({.transports = named}).status().code(), Code::invalid_argument)
        << named;
}

}  // namespace
}  // namespace kolo::test
