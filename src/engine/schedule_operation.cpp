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
  memory_ = {const_cast<std::byte*>(static_cast<const std::byte*>(spec_.input)),
             static_cast<std::byte*>(spec_.output), scratch_.memory.get()};
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
    scaled_input_ = executor_.memory().take(spec_.signature.count * size_of(dtype));
    memory_[0] = scaled_input_.memory.get();
    kernels::scale_function(dtype)(memory_[0], spec_.input, spec_.signature.count,
                                   kernels::average_scale(size_of(dtype), spec_.ranks().size()));
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
  end(Status(), Clock::now());
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
  std::byte* base = memory_[static_cast<std::size_t>(buffer)];
  return base == nullptr ? nullptr : base + offset;
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
      combine(step, at(step.dst_buffer, step.dst), at(step.a_buffer, step.a), at(step.b_buffer, step.b),
              step.bytes);
      break;
    case schedule::StepKind::copy: {
      std::byte* to = at(step.dst_buffer, step.dst);
      const std::byte* from = at(step.a_buffer, step.a);
      if (to != from && step.bytes > 0) kernels::copy(to, from, step.bytes);
      break;
    }
  }
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
    transfer.data = at(step.a_buffer, step.a);
    transfer.acknowledged = schedule::has_root(spec_.key().collective);
    transfer.is_warm = step.dependencies > 0;
    link.post_send(transfer);
  } else {
    const bool stores = step.kind == schedule::StepKind::recv && encoding_.is_native();
    transfer.data = stores ? at(step.dst_buffer, step.dst) : nullptr;
    transfer.acknowledged = false;
    link.post_receive(transfer);
  }
}

/// Encodes a message only when its bytes leave, so that few messages are in memory twice.
void ScheduleOperation::encode(std::uint32_t index) {
  Transfer& transfer = transfers_[index];
  if (encoding_.is_native() || transfer.encoded.memory) return;
  const PlanStep& step = prepared_->plan->steps[index];
  transfer.encoded =
      encoding_.encode(at(step.a_buffer, step.a), step.bytes / sizeof(float), executor_.memory());
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
  std::byte* to = at(step.dst_buffer, step.dst + offset);
  if (step.kind == schedule::StepKind::recv) {
    kernels::copy(to, from, size);
    return;
  }
  const std::byte* own = at(step.a_buffer, step.a + offset);
  if (step.incoming_first) {
    combine(step, to, from, own, size);
  } else {
    combine(step, to, own, from, size);
  }
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

}  // namespace kolo::engine
