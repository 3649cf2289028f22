// PlanCache: how calls of one shape run, kept for the next call of that shape.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/operation.hpp"
#include "kolo/dtype.hpp"
#include "kolo/reduction.hpp"
#include "kolo/wire.hpp"
#include "schedule/schedule.hpp"

namespace kolo::comm {

/// Plans by everything that shapes them. Thread-safe under the communicator's mutex.
class PlanCache {
 public:
  struct Key {
    schedule::Collective collective;
    std::string algorithm;  ///< as the caller named it; empty: kolo's choice, send or recv
    int root;               ///< or the peer of a send (recv: -1 - peer)
    std::uint64_t element_bytes;
    std::uint64_t segment_bytes;
    Wire wire;
    bool in_place;
    bool rank_order;                    ///< the reduction is not commutative
    std::optional<std::string> custom;  ///< name of the caller's own reduction, perhaps empty
    std::uint64_t count;
    std::vector<std::uint64_t> in_parts;
    std::vector<std::uint64_t> out_parts;

    auto operator<=>(const Key&) const = default;
  };

  /// How to run such a call, and what ranks must agree on for it.
  struct Entry {
    std::shared_ptr<const engine::PreparedCall> prepared;
    std::uint8_t index = 0;     ///< of the algorithm in the registry
    std::uint64_t details = 0;  ///< as Signature::details
  };

  /// A key for the calls that programs repeat: even parts, a built-in reduction, kolo's choice of the
  /// algorithm.
  struct FastKey {
    schedule::Collective collective;
    DType dtype;
    ReduceOp op;
    bool in_place;
    bool one_buffer;
    int root;
    std::uint64_t count;
    std::uint64_t segment_bytes;
    Wire wire;

    bool operator==(const FastKey&) const = default;
  };
  /// A slot for such a call. If its `key` is not this call's, it holds another call.
  struct FastEntry {
    std::optional<FastKey> key;
    Entry entry;
  };
  FastEntry& recent(const FastKey& key) {
    const std::uint64_t mixed = key.count * 31 + static_cast<std::uint64_t>(key.collective) * 7 +
                                static_cast<std::uint64_t>(key.root);
    return recent_[mixed % recent_.size()];
  }

  /// The cached plan, or what `make` returns.
  template <typename Make>
  Entry get(Key key, Make make) {
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    constexpr std::size_t kMost = 256;
    if (plans_.size() >= kMost) plans_.clear();  // running operations keep theirs
    Entry entry = make();
    plans_.emplace(std::move(key), entry);
    return entry;
  }

 private:
  std::map<Key, Entry> plans_;
  std::array<FastEntry, 32> recent_;
};

}  // namespace kolo::comm
