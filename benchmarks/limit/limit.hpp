// The machine's limit: collectives among processes that have all their memory in common, as plain as can be.
// Nothing here is kolo's, so that kolo can be measured against it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace limit {

/// What a rank says of itself, on cache lines of its own (processors fetch them in pairs).
struct alignas(128) Flag {
  std::atomic<std::uint64_t> arrivals;
};

/// The ranks meet: each writes its own flag and reads all others'. A value for each rank over common flags.
class Barrier {
 public:
  /// `flags`: one for each rank, zero at first. `yields`: there are more ranks than cores, so never wait
  /// without giving the core away.
  Barrier(std::span<Flag> flags, int rank, bool yields) : flags_(flags), rank_(rank), yields_(yields) {}
  void wait();

 private:
  std::span<Flag> flags_;
  int rank_;
  bool yields_;
  std::uint64_t arrivals_ = 0;
};

/// One cache line of data that says itself whether it has come.
struct alignas(64) Message {
  static constexpr std::size_t kValues = 15;
  float values[kValues];
  std::atomic<std::uint32_t> number;
};

/// All-reduce of little data: each rank writes its values into cache lines of its own, and all ranks read all
/// lines. Nobody is told that they were read: who has seen everybody's call k knows that all have left call k
/// - 1, so two sets of lines in turns suffice. A value for each rank over common lines.
class Exchange {
 public:
  static constexpr std::size_t kMostValues = 1024;
  static constexpr std::size_t kLines = (kMostValues + Message::kValues - 1) / Message::kValues;
  /// Messages for so many ranks.
  static constexpr std::size_t size_for(int ranks) { return 2 * static_cast<std::size_t>(ranks) * kLines; }

  /// `messages`: size_for(ranks), zero at first.
  Exchange(std::span<Message> messages, int ranks, int rank, bool yields)
      : messages_(messages), ranks_(ranks), rank_(rank), yields_(yields) {}
  /// At most kMostValues; `in` may be `out`.
  void all_reduce(const float* in, float* out, std::size_t count);

 private:
  std::span<Message> messages_;
  int ranks_;
  int rank_;
  bool yields_;
  std::uint32_t calls_ = 0;
};

/// Elements [begin, end) of all sources, summed in their order, go to all targets, which may be the sources.
/// One source is copied.
void sum(std::span<const float* const> sources, std::span<float* const> targets, std::size_t begin,
         std::size_t end);

/// The same for one source and targets apart from it, with stores that go past the caches.
void stream(const float* source, std::span<float* const> targets, std::size_t begin, std::size_t end);

}  // namespace limit
