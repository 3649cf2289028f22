// PlanCache: how calls run, kept for the next call with the same key.
#pragma once

#include <array>
#include <memory>
#include <unordered_set>
#include <utility>

#include "engine/operation.hpp"

namespace kolo::comm {

/// Thread-safe under the communicator's mutex.
class PlanCache {
 public:
  /// What runs calls with this key: what was kept, or what `make` returns. Valid until the next call of
  /// get(); operations that are under way keep theirs.
  template <typename Make>
  const engine::PreparedCall& get(const schedule::CallKey& key, Make make) {
    const engine::PreparedCall*& recent = recent_[key.hash() >> (64 - kRecentBits)];
    if (recent != nullptr && recent->key == key) return *recent;
    auto found = all_.find(key);
    if (found == all_.end()) {
      auto made = make();
      if (all_.size() >= kMost) {
        all_.clear();
        recent_.fill(nullptr);
      }
      found = all_.insert(std::move(made)).first;
    }
    return *(recent = found->get());
  }

 private:
  static constexpr int kRecentBits = 6;
  static constexpr std::size_t kMost = 256;
  using Prepared = std::shared_ptr<const engine::PreparedCall>;

  static const schedule::CallKey& key_of(const schedule::CallKey& key) { return key; }
  static const schedule::CallKey& key_of(const Prepared& prepared) { return prepared->key; }
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const auto& one) const { return key_of(one).hash(); }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const auto& one, const auto& other) const { return key_of(one) == key_of(other); }
  };

  std::unordered_set<Prepared, Hash, Equal> all_;
  std::array<const engine::PreparedCall*, std::size_t{1} << kRecentBits> recent_{};  ///< of `all_`, by hash
};

}  // namespace kolo::comm
