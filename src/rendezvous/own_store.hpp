// OwnStore: what kolo's own stores tell about themselves, and stores of the caller's own do not.
#pragma once

#include "kolo/store.hpp"

namespace kolo::rendezvous {

class OwnStore {
 public:
  virtual ~OwnStore() = default;
  /// False for a view of a store of the caller's own.
  virtual bool is_own() const { return true; }
};

inline bool is_own(const Store& store) {
  const auto* own = dynamic_cast<const OwnStore*>(&store);
  return own && own->is_own();
}

}  // namespace kolo::rendezvous
