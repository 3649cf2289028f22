// The machine's limit: plain collectives among processes that share all their memory. Uses nothing of kolo.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace limit {

/// The state of one rank, on cache lines of its own (processors fetch them in pairs).
struct alignas(128) Flag {
  std::atomic<std::uint64_t> arrivals;
};

/// A barrier: each rank writes its own flag and reads all other flags. Each rank has a Barrier over the
/// shared flags.
class Barrier {
 public:
  /// `flags`: one for each rank, initially zero. `yields`: ranks share cores, so a waiting rank always
  /// yields.
  Barrier(std::span<Flag> flags, int rank, bool yields) : flags_(flags), rank_(rank), yields_(yields) {}
  void wait();

 private:
  std::span<Flag> flags_;
  int rank_;
  bool yields_;
  std::uint64_t arrivals_ = 0;
};

/// One cache line of data with the number of its call.
struct alignas(64) Message {
  static constexpr std::size_t kValues = 15;
  float values[kValues];
  std::atomic<std::uint32_t> number;
};

/// All-reduce of small data: each rank writes its values into cache lines of its own, and reads the lines of
/// all ranks. No acknowledgement is needed: a rank that has read all lines of call k knows that all ranks
/// have left call k - 1, so two alternating sets of lines suffice. Each rank has an Exchange over the shared
/// lines.
class Exchange {
 public:
  static constexpr std::size_t kMostValues = 1024;
  static constexpr std::size_t kLines = (kMostValues + Message::kValues - 1) / Message::kValues;
  /// Number of messages for `ranks`.
  static constexpr std::size_t size_for(int ranks) { return 2 * static_cast<std::size_t>(ranks) * kLines; }

  /// `messages`: size_for(ranks), initially zero.
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

/// Writes the sums of elements [begin, end) of all sources, in their order, to all targets, which may be the
/// sources. One source is copied.
void sum(std::span<const float* const> sources, std::span<float* const> targets, std::size_t begin,
         std::size_t end);

/// Copies elements [begin, end) of one source to other memory with non-temporal stores.
void stream(const float* source, std::span<float* const> targets, std::size_t begin, std::size_t end);

}  // namespace limit
