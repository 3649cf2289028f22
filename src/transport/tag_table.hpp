// TagTable: a few values by tag. Messages are mostly matched in the order in which they were posted. So a
// queue that is searched from its front beats a hash table, and allocates nothing once it has grown.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "transport/message.hpp"

namespace kolo::transport {

template <typename Value>
class TagTable {
 public:
  void add(const Tag& tag, Value value) { entries_.emplace_back(tag, std::move(value)); }

  Value* find(const Tag& tag) {
    for (std::size_t i = head_; i < entries_.size(); ++i) {
      if (entries_[i].first == tag) return &entries_[i].second;
    }
    return nullptr;
  }

  bool contains(const Tag& tag) const {
    for (std::size_t i = head_; i < entries_.size(); ++i) {
      if (entries_[i].first == tag) return true;
    }
    return false;
  }

  std::optional<Value> take(const Tag& tag) {
    for (std::size_t i = head_; i < entries_.size(); ++i) {
      if (!(entries_[i].first == tag)) continue;
      std::optional<Value> value(std::move(entries_[i].second));
      if (i == head_) {
        ++head_;
        if (head_ > 64 && head_ * 2 > entries_.size()) {
          entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(head_));
          head_ = 0;
        }
      } else {
        entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (head_ == entries_.size()) clear();
      return value;
    }
    return std::nullopt;
  }

  template <typename Function>
  void for_each(Function function) const {
    for (std::size_t i = head_; i < entries_.size(); ++i) function(entries_[i].first, entries_[i].second);
  }

  bool empty() const { return head_ == entries_.size(); }
  std::size_t size() const { return entries_.size() - head_; }
  /// The value that was added last, of those that are left.
  Value& back() { return entries_.back().second; }
  void clear() {
    entries_.clear();
    head_ = 0;
  }

 private:
  std::vector<std::pair<Tag, Value>> entries_;
  std::size_t head_ = 0;
};

}  // namespace kolo::transport
