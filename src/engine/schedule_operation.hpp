// ScheduleOperation: a call that exchanges messages. It walks its plan as they finish.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/memory_pool.hpp"
#include "engine/encoding.hpp"
#include "engine/operation.hpp"
#include "engine/plan.hpp"
#include "kernels/kernels.hpp"
#include "transport/link.hpp"

namespace kolo::engine {

class ScheduleExecutor;

class ScheduleOperation final : public Operation {
 public:
  ScheduleOperation(ScheduleExecutor& executor, std::weak_ptr<Engine> owner)
      : Operation(std::move(owner)), executor_(executor) {}

  /// A receive from any rank waits for match().
  void begin();
  /// The message `sequence` from `source` is this receive's.
  void match(int source, std::uint64_t sequence);
  /// This message is what the probe looks for.
  void find(int source, const transport::Signature& message);
  /// Numbers a receive from a named rank.
  void set_sequence(std::uint64_t sequence) { spec_.sequence = sequence; }

  int waiting_step() const override;
  /// Those of which a posted receive, or else a send, has not finished.
  std::vector<int> waiting_for() const override;
  bool needs(int rank) const override;
  void give_back_memory() override;

 private:
  class Transfer final : public transport::MessageRequest {
   public:
    ScheduleOperation* operation = nullptr;
    std::uint32_t index = 0;
    bool posted = false;
    Clock::time_point posted_at{};  ///< if an observer needs times
    MemoryPool::Block encoded;      ///< of a send in a wire format or of several parts, while its bytes leave
    Encoding::Unfinished unfinished;  ///< of a receive

    void leaving() override { operation->encode(index); }
    void consume(std::uint64_t offset, const std::byte* from, std::uint64_t size) override {
      operation->consume(index, offset, from, size);
    }
    void finished() override { operation->transfer_finished(index); }
  };

  void begin_plan();
  void finish();
  void run_step(std::uint32_t index);
  int peer_of(const PlanStep& step) const { return spec_.source == kAnySource ? source_ : step.peer; }
  void run_ready();
  void post(std::uint32_t index);
  void encode(std::uint32_t index);
  void consume(std::uint32_t index, std::uint64_t offset, const std::byte* from, std::uint64_t size);
  void transfer_finished(std::uint32_t index);
  void complete(std::uint32_t index);
  void take_in(const PlanStep& step, std::uint64_t offset, const std::byte* from, std::uint64_t size);
  void combine(const PlanStep& step, std::byte* out, const std::byte* left, const std::byte* right,
               std::uint64_t bytes);
  void combine_custom(const CustomReduction& reduction, std::byte* out, const std::byte* left,
                      const std::byte* right, std::uint64_t count);
  std::byte* at(schedule::BufferName buffer, std::uint64_t offset) const;
  std::uint64_t piece(schedule::BufferName buffer, std::uint64_t offset, std::uint64_t bytes) const;
  std::uint64_t piece(const PlanStep& step, std::uint64_t offset, std::uint64_t bytes) const;
  bool is_in_pieces(const PlanStep& step) const { return piece(step, 0, step.bytes) < step.bytes; }
  /// Calls `run(offset, bytes)` for each stretch of these bytes of the step that is in one piece.
  template <typename Run>
  void in_pieces(const PlanStep& step, std::uint64_t offset, std::uint64_t bytes, Run run) {
    for (const std::uint64_t end = offset + bytes; offset < end; offset += bytes) {
      bytes = piece(step, offset, end - offset);
      run(offset, bytes);
    }
  }
  MemoryPool::Block packed(const PlanStep& step);

  ScheduleExecutor& executor_;
  /// A buffer: in one piece or, if there are `parts`, in one piece a part. These begin at `offsets`.
  struct Memory {
    std::byte* whole = nullptr;
    std::span<std::byte* const> parts = {};
    std::span<const std::uint64_t> offsets = {};

    /// The part to which this byte belongs; no empty part, unless all of the following are empty.
    std::size_t part_of(std::uint64_t offset) const {
      const auto first = offsets.begin();
      return static_cast<std::size_t>(std::upper_bound(first, offsets.end() - 1, offset) - first - 1);
    }
  };
  std::array<Memory, 3> memory_{};  ///< by BufferName
  MemoryPool::Block scratch_;
  MemoryPool::Block scaled_input_;
  std::vector<std::uint32_t> dependencies_left_;
  std::vector<bool> finished_;
  std::vector<Transfer> transfers_;
  Encoding encoding_;
  std::vector<std::uint32_t> ready_;
  bool running_ = false;
  bool is_broken_ = false;  ///< its reduction has thrown: no step finishes any more
  std::uint32_t steps_left_ = 0;
  kernels::ReduceFn reduce_ = nullptr;
  kernels::AverageFn average_ = nullptr;
};

}  // namespace kolo::engine
