// Labels: what calls are for, in words, found again by the signature.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/hash.hpp"

namespace kolo::comm {

/// A labelled call's Signature::details are a hash, plus the label's number. Ranks mostly use the same
/// labels, so a rank can name a peer's. Thread-safe.
class Labels {
 public:
  /// The process's.
  static Labels& instance() {
    static auto* const labels = new Labels;  // communicators may outlive other statics
    return *labels;
  }

  /// The details of a call that without a label has `details`. Allocates at the first call of its kind.
  std::uint64_t mark(std::uint64_t details, std::string_view label, std::uint32_t number) {
    const std::uint64_t base = hash(details, label);
    const std::lock_guard lock(mutex_);
    if (!labels_.contains(base)) {
      if (labels_.size() >= kMost) labels_.clear();
      labels_.emplace(base, label);
    }
    return base + number;
  }

  /// Label and number in words; empty where no such call is known.
  std::string text_of(std::uint64_t details) const {
    const std::lock_guard lock(mutex_);
    const auto after = labels_.upper_bound(details);
    if (after == labels_.begin()) return {};
    const auto& [base, label] = *std::prev(after);
    return details - base > UINT32_MAX ? "" : label + ' ' + std::to_string(details - base);
  }

 private:
  static constexpr std::size_t kMost = 4096;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::string> labels_;
};

}  // namespace kolo::comm
