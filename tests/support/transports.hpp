// The transports that a suite runs over, from the registry: a new one joins by itself.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace kolo::test {

/// The names of those that reach at least so far, fastest first. In the registry they are literals, so each
/// ends with a zero.
inline std::vector<const char*> transports_that_reach(transport::Reach reach) {
  std::vector<const char*> names;
  for (const transport::TransportFactory& factory : transport::transport_factories()) {
    if (factory.reach >= reach) names.push_back(factory.name.data());
  }
  return names;
}

inline const auto kTransports = ::testing::ValuesIn(transports_that_reach(transport::Reach::process));
inline const auto kBetweenProcesses = ::testing::ValuesIn(transports_that_reach(transport::Reach::host));
inline const auto kTransportNames = [](const auto& info) { return std::string(info.param); };

}  // namespace kolo::test
