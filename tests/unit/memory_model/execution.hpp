// Execution: the operations of some threads on atomic and plain memory, and whether C++ allows them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "relation.hpp"

namespace kolo::test::memory {

enum class Order { plain, relaxed, acquire, release, acq_rel, seq_cst };
enum class Kind { read, write, update, fence };

inline constexpr int kInitially = -1;  ///< the thread of the first write of every location
inline constexpr std::size_t kNone = ~std::size_t{0};

struct Event {
  int thread = kInitially;
  Kind kind = Kind::fence;
  Order order = Order::plain;
  std::size_t location = kNone;
  std::size_t source = kNone;  ///< the event that it reads from
  int read = 0;
  int written = 0;

  bool reads() const { return kind == Kind::read || kind == Kind::update; }
  bool writes() const { return kind == Kind::write || kind == Kind::update; }
};

/// The model is RC11 (Lahav, Vafeiadis, Kang, Hur, Dreyer: Repairing Sequential Consistency in C/C++11, PLDI
/// 2017) with the release sequences of C++20. An execution is a graph: the events of each thread in their
/// order, for each read the write that it reads from, for each location the order of its writes. No read may
/// depend on itself ("load buffering" is excluded). This leaves out executions of arm64 only if a relaxed or
/// plain read precedes a relaxed or plain write without a dependency or a fence between them.
class Execution {
 public:
  explicit Execution(const std::vector<int>& initial_values);

  /// Appends an event to its thread. A write is placed after `after` in the order of its location's writes;
  /// an update is placed after the write that it reads from.
  void append(const Event& event, std::size_t after);

  const std::vector<Event>& events() const { return events_; }
  /// The writes of a location in their order.
  const std::vector<std::size_t>& writes(std::size_t location) const { return writes_[location]; }

  bool is_allowed() const;
  /// Whether the last event is part of a data race.
  bool is_racing() const;
  /// Two executions have equal keys if they differ only in the order in which events of different threads
  /// were appended.
  std::string key() const;
  std::string describe(const std::vector<std::string>& threads,
                       const std::vector<std::string>& locations) const;

 private:
  template <typename Predicate>
  Events where(Predicate predicate) const;
  Relation reads_from() const;
  Relation program_order() const;
  Relation happens_before() const;
  bool has_total_order(const Relation& happens_before, const Relation& coherence, const Relation& from_reads,
                       const Relation& order_of_writes) const;

  std::vector<Event> events_;
  std::vector<std::vector<std::size_t>> writes_;  ///< writes by location
};

}  // namespace kolo::test::memory
