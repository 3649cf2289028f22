// OnNetwork: a store that ranks reach over the network. Its address shows a rank which interface leads to the
// other ranks.
#pragma once

#include <string>

#include "kolo/store.hpp"

namespace kolo::rendezvous {

class OnNetwork {
 public:
  virtual ~OnNetwork() = default;
  /// The name or address by which all ranks know the store's host; empty if there is none.
  virtual std::string host() const = 0;
};

/// Empty for a store that is not on the network.
inline std::string host_of(const Store& store) {
  const auto* on_network = dynamic_cast<const OnNetwork*>(&store);
  return on_network ? on_network->host() : std::string();
}

}  // namespace kolo::rendezvous
