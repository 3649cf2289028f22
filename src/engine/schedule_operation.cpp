#include "engine/schedule_operation.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "engine/inside_reduction.hpp"
#include "engine/schedule_executor.hpp"

namespace kolo::engine {

void ScheduleOperation::begin() {
  start_clock();
  is_broken_ = false;
  if (!is_unmatched()) begin_plan();
}

void ScheduleOperation::match(int source, std::uint64_t sequence) {
  source_ = source;
  spec_.sequence = sequence;
  begin_plan();
}

void ScheduleOperation::find(int source, const transport::Signature& message) {
  source_ = source;
  spec_.signature = message;
  finish();
}

void ScheduleOperation::begin_plan() {
  const Plan& plan = *prepared_->plan;
  const auto count = plan.steps.size();
  scratch_ = executor_.memory().take(plan.scratch_bytes);
  memory_ = {Memory{const_cast<std::byte*>(static_cast<const std::byte*>(spec_.input))},
             Memory{static_cast<std::byte*>(spec_.output)}, Memory{scratch_.memory.get()}};
  if (const Listed* listed = spec_.listed) {
    memory_[0].parts = listed->input;
    memory_[0].offsets = plan.input_offsets;
    memory_[1].parts = listed->output;
    memory_[1].offsets = plan.output_offsets;
  }
  encoding_.begin(prepared_->key.wire, plan.longest_message);
  dependencies_left_.resize(count);
  finished_.assign(count, false);
  if (transfers_.size() < count) transfers_ = std::vector<Transfer>(count);
  steps_left_ = static_cast<std::uint32_t>(count);
  const DType dtype = spec_.key().dtype;
  const ReduceOp op = spec_.reduction.op();
  reduce_ = schedule::is_reducing(spec_.key().collective) ? kernels::reduce_function(dtype, op) : nullptr;
  average_ = op == ReduceOp::average ? kernels::average_function(dtype) : nullptr;
  if (is_scaled_average(op, dtype, spec_.ranks().size())) {
    const std::uint64_t all = spec_.signature.count * size_of(dtype);
    scaled_input_ = executor_.memory().take(all);
    std::byte* const scaled = scaled_input_.memory.get();
    for (std::uint64_t done = 0; done < all;) {
      const std::uint64_t bytes = piece(schedule::BufferName::input, done, all - done);
      kernels::scale_function(dtype)(scaled + done, at(schedule::BufferName::input, done),
                                     bytes / size_of(dtype),
                                     kernels::average_scale(size_of(dtype), spec_.ranks().size()));
      done += bytes;
    }
    memory_[0] = Memory{scaled};
  }
  ready_.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    dependencies_left_[i] = plan.steps[i].dependencies;
    transfers_[i].posted = false;
  }
  // Receives first: a peer that has already sent is answered before this rank starts to send.
  for (const bool receives : {false, true}) {
    for (std::uint32_t i = static_cast<std::uint32_t>(count); i-- > 0;) {
      const schedule::StepKind kind = plan.steps[i].kind;
      const bool is_receive = kind == schedule::StepKind::recv || kind == schedule::StepKind::recv_reduce;
      if (dependencies_left_[i] == 0 && is_receive == receives) ready_.push_back(i);
    }
  }
  run_ready();
  if (steps_left_ == 0) finish();
}

/// The last thing that a function of this operation does.
void ScheduleOperation::finish() {
  succeed(Clock::now());
  executor_.listener().on_finished(*this);
}

void ScheduleOperation::give_back_memory() {
  executor_.memory().give_back(std::exchange(scratch_, {}));
  executor_.memory().give_back(std::exchange(scaled_input_, {}));
  if (!status().ok()) {
    for (Transfer& transfer : transfers_) executor_.memory().give_back(std::exchange(transfer.encoded, {}));
  }
  constexpr std::size_t kMostTransfers = 4096;
  if (transfers_.size() > kMostTransfers) transfers_ = std::vector<Transfer>();
  finished_.clear();
  Operation::give_back_memory();
}

std::byte* ScheduleOperation::at(schedule::BufferName buffer, std::uint64_t offset) const {
  const Memory& memory = memory_[static_cast<std::size_t>(buffer)];
  if (!memory.parts.empty()) [[unlikely]] {
    const std::size_t part = memory.part_of(offset);
    return memory.parts[part] + (offset - memory.offsets[part]);
  }
  return memory.whole == nullptr ? nullptr : memory.whole + offset;
}

/// How many of these bytes of the buffer are in one piece.
std::uint64_t ScheduleOperation::piece(schedule::BufferName buffer, std::uint64_t offset,
                                       std::uint64_t bytes) const {
  const Memory& memory = memory_[static_cast<std::size_t>(buffer)];
  if (memory.parts.empty()) return bytes;
  return std::min(bytes, memory.offsets[memory.part_of(offset) + 1] - offset);
}

/// How many bytes of the step, from its byte `offset` on, are in one piece in each buffer. A range that a
/// step has not is at the beginning of scratch.
std::uint64_t ScheduleOperation::piece(const PlanStep& step, std::uint64_t offset,
                                       std::uint64_t bytes) const {
  if (spec_.listed == nullptr) return bytes;
  bytes = piece(step.dst_buffer, step.dst + offset, bytes);
  bytes = piece(step.a_buffer, step.a + offset, bytes);
  return piece(step.b_buffer, step.b + offset, bytes);
}

/// What a step sends, in one piece.
MemoryPool::Block ScheduleOperation::packed(const PlanStep& step) {
  MemoryPool::Block block = executor_.memory().take(step.bytes);
  in_pieces(step, 0, step.bytes, [&](std::uint64_t offset, std::uint64_t bytes) {
    kernels::copy(block.memory.get() + offset, at(step.a_buffer, step.a + offset), bytes);
  });
  return block;
}

void ScheduleOperation::run_ready() {
  if (running_) return;  // a step that finished inside run_step(): the loop below takes its dependants
  running_ = true;
  while (!ready_.empty()) {
    const std::uint32_t index = ready_.back();
    ready_.pop_back();
    run_step(index);
  }
  running_ = false;
}

void ScheduleOperation::run_step(std::uint32_t index) {
  const PlanStep& step = prepared_->plan->steps[index];
  switch (step.kind) {
    case schedule::StepKind::send:
    case schedule::StepKind::recv:
    case schedule::StepKind::recv_reduce:
      post(index);
      return;
    case schedule::StepKind::reduce:
    case schedule::StepKind::copy:
      break;
  }
  in_pieces(step, 0, step.bytes, [&](std::uint64_t offset, std::uint64_t bytes) {
    std::byte* to = at(step.dst_buffer, step.dst + offset);
    const std::byte* from = at(step.a_buffer, step.a + offset);
    if (step.kind == schedule::StepKind::reduce) {
      combine(step, to, from, at(step.b_buffer, step.b + offset), bytes);
    } else if (to != from) {
      kernels::copy(to, from, bytes);
    }
  });
  if (!is_broken_) complete(index);
}

void ScheduleOperation::post(std::uint32_t index) {
  const PlanStep& step = prepared_->plan->steps[index];
  Transfer& transfer = transfers_[index];
  transfer.operation = this;
  transfer.index = index;
  transfer.posted = true;
  transfer.tag = {spec_.group->context, step.message, spec_.sequence};
  transfer.signature = &spec_.signature;
  transfer.bytes = step.wire_bytes;
  transfer.segments = step.segments;
  if (executor_.is_timed()) transfer.posted_at = Clock::now();
  transport::Link& link = executor_.link(spec_.ranks()[static_cast<std::size_t>(peer_of(step))]);
  if (step.kind == schedule::StepKind::send) {
    transfer.data = is_in_pieces(step) ? nullptr : at(step.a_buffer, step.a);
    transfer.acknowledged = schedule::has_root(spec_.key().collective);
    transfer.is_warm = step.dependencies > 0;
    link.post_send(transfer);
  } else {
    const bool stores = step.kind == schedule::StepKind::recv && encoding_.is_native() && !is_in_pieces(step);
    transfer.data = stores ? at(step.dst_buffer, step.dst) : nullptr;
    transfer.acknowledged = false;
    link.post_receive(transfer);
  }
}

/// Encodes or packs a message only when its bytes leave, so that few messages are in memory twice. A message
/// of several parts is a short one of an algorithm that saves messages, or the segment of a long one that
/// crosses the end of a part.
void ScheduleOperation::encode(std::uint32_t index) {
  Transfer& transfer = transfers_[index];
  const PlanStep& step = prepared_->plan->steps[index];
  if (transfer.encoded.memory || (encoding_.is_native() && !is_in_pieces(step))) return;
  transfer.encoded = encoding_.is_native() ? packed(step)
                                           : encoding_.encode(at(step.a_buffer, step.a),
                                                              step.bytes / sizeof(float), executor_.memory());
  transfer.data = transfer.encoded.memory.get();
}

void ScheduleOperation::consume(std::uint32_t index, std::uint64_t offset, const std::byte* from,
                                std::uint64_t size) {
  const PlanStep& step = prepared_->plan->steps[index];
  touch(Clock::now());
  if (encoding_.is_native()) {
    take_in(step, offset, from, size);
    return;
  }
  encoding_.decode(transfers_[index].unfinished, offset, from, size, step.wire_bytes,
                   [&](std::uint64_t first, const float* numbers, std::uint64_t count) {
                     take_in(step, first * sizeof(float), reinterpret_cast<const std::byte*>(numbers),
                             count * sizeof(float));
                   });
}

void ScheduleOperation::take_in(const PlanStep& step, std::uint64_t offset, const std::byte* from,
                                std::uint64_t size) {
  in_pieces(step, offset, size, [&](std::uint64_t at_byte, std::uint64_t bytes) {
    std::byte* to = at(step.dst_buffer, step.dst + at_byte);
    const std::byte* incoming = from + (at_byte - offset);
    if (step.kind == schedule::StepKind::recv) return kernels::copy(to, incoming, bytes);
    const std::byte* own = at(step.a_buffer, step.a + at_byte);
    step.incoming_first ? combine(step, to, incoming, own, bytes) : combine(step, to, own, incoming, bytes);
  });
}

void ScheduleOperation::combine(const PlanStep& step, std::byte* out, const std::byte* left,
                                const std::byte* right, std::uint64_t bytes) {
  const std::uint64_t count = bytes / size_of(spec_.key().dtype);
  if (count == 0) return;
  // In batches that stay in cache between the two passes.
  if (constexpr std::uint64_t kBatchBytes = Encoding::kBatch * sizeof(float);
      bytes > kBatchBytes && step.completes && !encoding_.is_native()) {
    for (std::uint64_t done = 0; done < bytes; done += kBatchBytes) {
      combine(step, out + done, left + done, right + done, std::min(kBatchBytes, bytes - done));
    }
    return;
  }
  if (const CustomReduction* custom = spec_.reduction.custom_reduction()) {
    combine_custom(*custom, out, left, right, count);
  } else if (average_ != nullptr && step.completes) {
    average_(out, left, right, count, spec_.ranks().size());
  } else {
    reduce_(out, left, right, count);
  }
  // The rank that completes a sum keeps the same rounded numbers that the other ranks get.
  if (step.completes && !encoding_.is_native()) encoding_.round(reinterpret_cast<float*>(out), count);
}

/// A wrong result must not reach other ranks: they are told of the failure instead.
void ScheduleOperation::combine_custom(const CustomReduction& reduction, std::byte* out,
                                       const std::byte* left, const std::byte* right, std::uint64_t count) {
  if (is_broken_) return;
  is_broken_ = true;
  try {
    const InsideReduction inside;
    reduction.combine(out, left, right, count, spec_.key().dtype);
    is_broken_ = false;
    executor_.listener().on_reduced();
  } catch (const std::bad_alloc&) {
    executor_.listener().on_no_memory();
  } catch (const std::exception& error) {
    executor_.listener().on_throwing_reduction(spec_.reduction.name(), error.what());
  } catch (...) {
    executor_.listener().on_throwing_reduction(spec_.reduction.name(), "no std::exception");
  }
}

void ScheduleOperation::transfer_finished(std::uint32_t index) {
  const PlanStep& step = prepared_->plan->steps[index];
  touch(Clock::now());
  executor_.memory().give_back(std::exchange(transfers_[index].encoded, {}));
  if (spec_.counts) {
    const bool sent = step.kind == schedule::StepKind::send;
    const int peer = spec_.ranks()[static_cast<std::size_t>(peer_of(step))];
    executor_.listener().on_transferred(spec_, sent, peer, step.wire_bytes, transfers_[index].posted_at);
  }
  if (is_broken_) return;
  complete(index);
  run_ready();
  if (steps_left_ == 0 && !running_ && !done()) finish();
}

void ScheduleOperation::complete(std::uint32_t index) {
  const Plan& plan = *prepared_->plan;
  const PlanStep& step = plan.steps[index];
  finished_[index] = true;
  --steps_left_;
  for (std::uint32_t i = 0; i < step.dependent_count; ++i) {
    const std::uint32_t dependent = plan.dependents[step.first_dependent + i];
    if (--dependencies_left_[dependent] == 0) ready_.push_back(dependent);
  }
}

int ScheduleOperation::waiting_step() const {
  for (std::size_t i = 0; i < finished_.size(); ++i) {
    if (!finished_[i]) return static_cast<int>(prepared_->plan->steps[i].step);
  }
  return -1;
}

std::vector<int> ScheduleOperation::waiting_for() const {
  if (is_unmatched() && spec_.probed >= 0) return {spec_.probed};
  if (is_unmatched()) return executor_.other_ranks(spec_.ranks());
  std::vector<int> receives;
  std::vector<int> sends;
  for (std::size_t i = 0; i < finished_.size(); ++i) {
    if (finished_[i] || !transfers_[i].posted) continue;
    const PlanStep& step = prepared_->plan->steps[i];
    auto& list = step.kind == schedule::StepKind::send ? sends : receives;
    const int peer = peer_of(step);
    if (std::find(list.begin(), list.end(), peer) == list.end()) list.push_back(peer);
  }
  return receives.empty() ? sends : receives;
}

bool ScheduleOperation::needs(int rank) const {
  if (is_unmatched()) return false;  // any other rank may send
  for (std::size_t i = 0; i < finished_.size(); ++i) {
    if (!finished_[i] && transfers_[i].posted && peer_of(prepared_->plan->steps[i]) == rank) return true;
  }
  return false;
}

}  // namespace kolo::engine
