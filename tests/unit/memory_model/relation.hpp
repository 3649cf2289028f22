// Relation: pairs of events of an execution, as a bit matrix, with the operations in which memory models are
// written.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace kolo::test::memory {

inline constexpr std::size_t kMaxEvents = 64;

/// A set of events, by number.
using Events = std::uint64_t;

inline constexpr Events just(std::size_t event) {
  return Events{1} << event;
}

class Relation {
 public:
  /// All pairs of events below `count`.
  explicit Relation(std::size_t count) : count_(count) {}

  bool has(std::size_t from, std::size_t to) const { return (rows_[from] & just(to)) != 0; }
  void add(std::size_t from, std::size_t to) { rows_[from] |= just(to); }
  Events row(std::size_t from) const { return rows_[from]; }

  Relation& operator|=(const Relation& other) {
    for (std::size_t i = 0; i < count_; ++i) rows_[i] |= other.rows_[i];
    return *this;
  }
  friend Relation operator|(Relation one, const Relation& other) { return one |= other; }

  /// The pairs from an event of `first` to an event of `last`.
  Relation between(Events first, Events last) const {
    Relation result(count_);
    for (std::size_t i = 0; i < count_; ++i) result.rows_[i] = (first & just(i)) != 0 ? rows_[i] & last : 0;
    return result;
  }
  /// Composition: (a, c) if there is a b with (a, b) in this and (b, c) in `next`.
  Relation then(const Relation& next) const {
    Relation result(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      for (Events left = rows_[i]; left != 0; left &= left - 1)
        result.rows_[i] |= next.rows_[static_cast<std::size_t>(std::countr_zero(left))];
    }
    return result;
  }
  Relation inverse() const {
    Relation result(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      for (Events left = rows_[i]; left != 0; left &= left - 1)
        result.add(static_cast<std::size_t>(std::countr_zero(left)), i);
    }
    return result;
  }
  /// The reflexive closure.
  Relation or_same() const {
    Relation result = *this;
    for (std::size_t i = 0; i < count_; ++i) result.add(i, i);
    return result;
  }
  /// Without pairs of an event and itself.
  Relation but_same() const {
    Relation result = *this;
    for (std::size_t i = 0; i < count_; ++i) result.rows_[i] &= ~just(i);
    return result;
  }
  /// The transitive closure.
  Relation closure() const {
    Relation result = *this;
    for (std::size_t via = 0; via < count_; ++via) {
      for (std::size_t i = 0; i < count_; ++i) {
        if (result.has(i, via)) result.rows_[i] |= result.rows_[via];
      }
    }
    return result;
  }
  bool is_irreflexive() const {
    for (std::size_t i = 0; i < count_; ++i) {
      if (has(i, i)) return false;
    }
    return true;
  }
  bool is_acyclic() const { return closure().is_irreflexive(); }

 private:
  std::size_t count_;
  std::array<Events, kMaxEvents> rows_{};
};

}  // namespace kolo::test::memory
