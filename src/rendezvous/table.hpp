// Table: keys and values in memory, and the size limits of every store.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"

namespace kolo::rendezvous {

inline constexpr std::size_t kMaxKeyBytes = 1024;
inline constexpr std::size_t kMaxValueBytes = 1u << 20;

/// Code::invalid_argument if it is too long.
Status check_key(std::string_view key);
Status check_value(std::string_view value);

/// A key for messages: in quotes, shortened, with unprintable bytes as \xNN.
std::string quoted(std::string_view key);

/// Code::timeout: `key` did not appear in the store `where` within `timeout`.
Status missing_key(std::string_view key, std::string_view where, std::chrono::nanoseconds timeout);

/// The contents of a store. Not thread-safe: its owner locks.
class Table {
 public:
  void set(const std::string& key, std::string value) { entries_[key] = std::move(value); }
  /// Null when there is none; valid until the next change.
  const std::string* find(const std::string& key) const;
  /// Code::invalid_argument if the value is not a decimal number or the sum leaves 64 bits.
  Result<std::int64_t> add(const std::string& key, std::int64_t amount);
  void remove(const std::string& key) { entries_.erase(key); }
  /// Those of `keys` that do not exist, in their order.
  std::vector<std::string> missing(const std::vector<std::string>& keys) const;

 private:
  std::unordered_map<std::string, std::string> entries_;
};

}  // namespace kolo::rendezvous
