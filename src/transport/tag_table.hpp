// TagTable: values by tag. Messages are mostly matched in the order in which they were posted. So the oldest
// value is tried first, and only a table of many values keeps a hash of them. Allocates nothing once grown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "transport/message.hpp"

namespace kolo::transport {

template <typename Value>
class TagTable {
 public:
  static constexpr std::size_t kEntryBytes = sizeof(Tag) + sizeof(Value) + 4 * sizeof(std::uint32_t);

  void add(const Tag& tag, Value value) {
    if (size_ >= kFew && (!is_hashed_ || size_ >= buckets_.size())) hash_all();
    const std::uint32_t at = take_node();
    nodes_[at] = {tag, std::move(value), newest_, kNone, kNone};
    (newest_ == kNone ? oldest_ : nodes_[newest_].newer) = at;
    newest_ = at;
    ++size_;
    if (is_hashed_) append(at);
  }

  /// Of several values with this tag, these three mean the oldest one.
  Value* find(const Tag& tag) {
    const std::uint32_t at = node_of(tag);
    return at == kNone ? nullptr : &nodes_[at].value;
  }
  bool contains(const Tag& tag) const { return node_of(tag) != kNone; }
  std::optional<Value> take(const Tag& tag) {
    const std::uint32_t at = node_of(tag);
    if (at == kNone) return std::nullopt;
    if (is_hashed_) unlink(at);
    Node& node = nodes_[at];
    (node.older == kNone ? oldest_ : nodes_[node.older].newer) = node.newer;
    (node.newer == kNone ? newest_ : nodes_[node.newer].older) = node.older;
    std::optional<Value> value(std::exchange(node.value, Value()));
    node.newer = std::exchange(free_, at);
    if (--size_ == 0) is_hashed_ = false;
    return value;
  }

  /// From the oldest to the newest.
  template <typename Function>
  void for_each(Function function) const {
    for (std::uint32_t at = oldest_; at != kNone; at = nodes_[at].newer)
      function(nodes_[at].tag, nodes_[at].value);
  }
  /// The messages of one operation.
  template <typename Function>
  void for_each_of(std::uint32_t context, std::uint64_t sequence, Function function) const {
    for (std::uint32_t at = first({context, 0, sequence}); at != kNone; at = next(at)) {
      const Tag& tag = nodes_[at].tag;
      if (tag.context == context && tag.sequence == sequence) function(tag, nodes_[at].value);
    }
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// The value that was added last, of those that are left.
  Value& back() { return nodes_[newest_].value; }
  void clear() {
    nodes_.clear();
    oldest_ = newest_ = free_ = kNone;
    size_ = 0;
    is_hashed_ = false;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::size_t kFew = 32;

  struct Node {
    Tag tag;
    Value value;
    std::uint32_t older;
    std::uint32_t newer;  // or the next free node
    std::uint32_t next;   // of the bucket
  };
  static_assert(sizeof(Node) <= kEntryBytes);
  struct Bucket {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
  };

  /// The messages of one operation share a bucket.
  std::size_t bucket_of(const Tag& tag) const {
    const std::uint64_t mixed = (tag.sequence + (std::uint64_t{tag.context} << 20)) * 0x9e3779b97f4a7c15;
    return (mixed >> 32) & (buckets_.size() - 1);
  }
  std::uint32_t first(const Tag& tag) const { return is_hashed_ ? buckets_[bucket_of(tag)].first : oldest_; }
  std::uint32_t next(std::uint32_t at) const { return is_hashed_ ? nodes_[at].next : nodes_[at].newer; }

  std::uint32_t node_of(const Tag& tag) const {
    if (oldest_ != kNone && nodes_[oldest_].tag == tag) return oldest_;
    std::uint32_t at = first(tag);
    while (at != kNone && !(nodes_[at].tag == tag)) at = next(at);
    return at;
  }

  std::uint32_t take_node() {
    if (free_ != kNone) return std::exchange(free_, nodes_[free_].newer);
    nodes_.emplace_back();
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }

  void append(std::uint32_t at) {
    Bucket& bucket = buckets_[bucket_of(nodes_[at].tag)];
    nodes_[at].next = kNone;
    (bucket.last == kNone ? bucket.first : nodes_[bucket.last].next) = at;
    bucket.last = at;
  }
  void unlink(std::uint32_t at) {
    Bucket& bucket = buckets_[bucket_of(nodes_[at].tag)];
    std::uint32_t before = kNone;
    for (std::uint32_t other = bucket.first; other != at; other = nodes_[other].next) before = other;
    (before == kNone ? bucket.first : nodes_[before].next) = nodes_[at].next;
    if (bucket.last == at) bucket.last = before;
  }
  void hash_all() {
    std::size_t count = 2 * kFew;
    while (count <= 2 * size_) count *= 2;
    buckets_.assign(count, {});
    is_hashed_ = true;
    for (std::uint32_t at = oldest_; at != kNone; at = nodes_[at].newer) append(at);
  }

  std::vector<Node> nodes_;
  std::vector<Bucket> buckets_;  // each in the order of its values' ages
  std::uint32_t oldest_ = kNone;
  std::uint32_t newest_ = kNone;
  std::uint32_t free_ = kNone;
  std::size_t size_ = 0;
  bool is_hashed_ = false;
};

}  // namespace kolo::transport
