// OwnStore: what kolo's own stores tell about themselves, and stores of the caller's own do not.
#pragma once

#include <string>

#include "kolo/store.hpp"

namespace kolo::rendezvous {

class OwnStore {
 public:
  virtual ~OwnStore() = default;
  /// The name or address by which all ranks know the store's host; empty if it is not on the network. It
  /// shows a rank which interface leads to the other ranks.
  virtual std::string host() const { return {}; }
  /// False for a view of a store of the caller's own.
  virtual bool is_own() const { return true; }
};

inline std::string host_of(const Store& store) {
  const auto* own = dynamic_cast<const OwnStore*>(&store);
  return own ? own->host() : std::string();
}

inline bool is_own(const Store& store) {
  const auto* own = dynamic_cast<const OwnStore*>(&store);
  return own && own->is_own();
}

}  // namespace kolo::rendezvous
