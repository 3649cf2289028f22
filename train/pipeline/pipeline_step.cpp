#include "pipeline/pipeline_step.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/recompute.hpp"
#include "kolo/train/slice.hpp"
#include "libtorch/thread_state.hpp"
#include "ranks/agreement.hpp"
#include "ranks/span.hpp"

namespace kolo::train {
namespace {

/// What a rank says before a call, in one number: which call it makes, and how.
constexpr std::uint64_t kHasProblem = 2;
constexpr std::uint64_t kIsChanged = 4;
constexpr int kSamplesShift = 3;  ///< the first rank: how many samples there are

/// Where a stage computes: what it receives comes in the host's memory.
at::Device device_of(const PipelineStage& stage) {
  const std::vector<at::Tensor> parameters = stage.module->parameters();
  return parameters.empty() ? at::Device(at::kCPU) : parameters.front().device();
}

/// An error that all ranks have, and that ends nothing.
struct Refused {
  std::exception_ptr error;
};

AutocastState without_autocast() {
  AutocastState state = AutocastState::current();
  state.is_enabled = state.is_enabled_on_gpus = false;
  return state;
}

}  // namespace

PipelineStep::PipelineStep(std::vector<PipelineStage> stages, PipelineParallel::Loss loss,
                           const Communicator& communicator, const PipelineShape& shape, bool recompute,
                           StageGradients& gradients)
    : stages_(std::move(stages)),
      loss_(std::move(loss)),
      communicator_(communicator),
      shape_(shape),
      rank_(communicator_.rank()),
      recompute_(recompute),
      gradients_(gradients),
      training_(communicator_, MessagePlan(shape, rank_, true)),
      evaluation_(communicator_, MessagePlan(shape, rank_, false)),
      last_backwards_(static_cast<std::size_t>(shape.chunks)),
      words_(static_cast<std::size_t>(shape.ranks)) {
  const std::vector<Action>& actions = training_.plan().actions;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (!actions[i].is_forward) last_backwards_[static_cast<std::size_t>(actions[i].chunk)] = i;
  }
}

std::optional<double> PipelineStep::step(const at::Tensor& input, const at::Tensor& target) {
  const c10::AutoGradMode with_graph(true);
  const auto begin = Clock::now();
  last_ = {.steps = 1};
  Pass pass{Kind::step, is_first() ? input : at::Tensor(), is_last() ? target : at::Tensor(), false, 0, {}};
  run(pass, training_);
  last_.total = Clock::now() - begin;
  try {
    // Averages first: with the same bits in all pipelines, their sums are the same too.
    std::optional<Span> span(std::in_place, communicator_, "averages over pipelines");
    gradients_.finish();
    if (!gradients_.tied().empty()) {
      span.emplace(communicator_, "tied gradients");
      gradients_.sum_tied();
    }
  } catch (...) {
    fail(training_);
  }
  ++total_.steps;
  total_.most_held = std::max(total_.most_held, last_.most_held);
  total_.computing += last_.computing;
  total_.total += last_.total;
  last_loss_ = pass.loss / shape_.micro_batches;
  if (!is_last()) return {};
  return last_loss_;
}

at::Tensor PipelineStep::forward(const at::Tensor& input) {
  const c10::NoGradGuard no_grad;
  Pass pass{Kind::forward, is_first() ? input : at::Tensor(), {}, false, 0, {}};
  run(pass, evaluation_);
  return is_last() ? at::cat(pass.outputs) : at::Tensor();
}

double PipelineStep::mean_loss() {
  if (error_) std::rethrow_exception(error_);
  std::vector<double> loss{last_loss_};
  if (is_last() && gradients_.communicator().valid() && gradients_.communicator().size() > 1)
    gradients_.communicator().all_reduce(Buffer(loss), ReduceOp::average);
  communicator_.broadcast(Buffer(loss), shape_.ranks - 1);
  return loss[0];
}

void PipelineStep::run(Pass& pass, BorderExchange& exchange) {
  if (error_) std::rethrow_exception(error_);
  try {
    start_agreement(pass);
    run_actions(pass, exchange);
    exchange.finish();
  } catch (const Refused& refused) {
    held_.clear();
    if (pass.kind == Kind::step) gradients_.end();
    std::rethrow_exception(refused.error);
  } catch (...) {
    fail(exchange);
  }
}

void PipelineStep::run_actions(Pass& pass, BorderExchange& exchange) {
  if (pass.kind == Kind::step) gradients_.begin();
  const std::vector<Action>& actions = exchange.plan().actions;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    // The first stage computes its first output while ranks agree.
    if (i > 0 || !is_first() || !problem_.empty()) agree(pass, exchange);
    if (pass.is_agreed && !exchange.has_samples(actions[i].micro_batch)) continue;
    if (pass.is_agreed) exchange.post(i);
    if (actions[i].is_forward) {
      forward_one(pass, exchange, i);
    } else {
      backward_one(exchange, i);
    }
  }
}

void PipelineStep::forward_one(Pass& pass, BorderExchange& exchange, std::size_t index) {
  const Action action = exchange.plan().actions[index];
  const int stage = exchange.plan().stage_of(action);
  const bool has_graph = pass.kind == Kind::step;
  Held held;
  if (stage == 0) {
    held.input = micro_batch_of(pass.input, action.micro_batch);
  } else {
    const Span span(communicator_, "wait for output", action.micro_batch);
    held.input = exchange.receive_for(index).to(device_of(stages_[static_cast<std::size_t>(action.chunk)]));
    if (has_graph && exchange.has_gradient(stage - 1)) held.input.set_requires_grad(true);
  }
  std::optional<Span> span(std::in_place, communicator_, "forward", action.micro_batch);
  const auto begin = Clock::now();
  const auto& compute = stages_[static_cast<std::size_t>(action.chunk)].forward;
  held.output = recompute_ && has_graph ? kolo::recompute(compute, held.input) : compute(held.input);
  if (!held.output.defined())
    throw InvalidArgumentError("stage " + std::to_string(stage) + " computes an undefined tensor", {});
  if (stage == shape_.last_stage()) {
    if (!has_graph) {
      pass.outputs.push_back(held.output);
    } else {
      held.output = loss_(held.output, micro_batch_of(pass.target, action.micro_batch));
      pass.loss += held.output.item().toDouble();
    }
  }
  last_.computing += Clock::now() - begin;
  span.reset();
  agree(pass, exchange);
  exchange.send_output(action, held.output);
  if (!has_graph) return;
  held_.emplace(std::pair(action.chunk, action.micro_batch), std::move(held));
  last_.most_held = std::max(last_.most_held, static_cast<int>(held_.size()));
}

void PipelineStep::backward_one(BorderExchange& exchange, std::size_t index) {
  const Action action = exchange.plan().actions[index];
  const auto found = held_.find({action.chunk, action.micro_batch});
  Held& held = found->second;
  std::optional<Span> span(std::in_place, communicator_, "wait for gradient", action.micro_batch);
  at::Tensor gradient = exchange.receive_for(index);
  if (gradient.defined()) gradient = gradient.to(held.output.device());
  span.emplace(communicator_, "backward", action.micro_batch);
  const auto begin = Clock::now();
  if (held.output.requires_grad()) {
    const AutocastScope autocast(without_autocast());  // backward computes as forward did
    const bool is_loss = exchange.plan().stage_of(action) == shape_.last_stage();
    if (is_loss) gradient = at::full_like(held.output, 1.0 / shape_.micro_batches);
    gradients_.set_local(action.chunk, index != last_backwards_[static_cast<std::size_t>(action.chunk)]);
    torch::autograd::backward({held.output}, {gradient});
  }
  last_.computing += Clock::now() - begin;
  span.reset();
  if (held.input.is_leaf()) exchange.send_gradient(action, held.input.grad());
  held_.erase(found);
}

at::Tensor PipelineStep::micro_batch_of(const at::Tensor& batch, int index) const {
  const Slice part = slice_of(batch.size(0), index, shape_.micro_batches);
  return batch.narrow(0, part.begin, part.length);
}

std::string PipelineStep::problem_in(const Pass& pass) const {
  const auto problem_of_tensor = [&](const at::Tensor& tensor, const char* name) -> std::string {
    if (!tensor.defined() || tensor.dim() == 0)
      return "the stage needs the " + std::string(name) + " of the batch, and has none";
    const bool is_evaluation = pass.kind == Kind::forward;
    if (tensor.size(0) > 0 && (is_evaluation || tensor.size(0) % shape_.micro_batches == 0)) return {};
    if (is_evaluation) return "there are no samples to evaluate";
    return "the " + std::string(name) + " of " + std::to_string(tensor.size(0)) +
           " samples cannot be cut into " + std::to_string(shape_.micro_batches) + " equal micro-batches";
  };
  std::string problem;
  if (is_first()) problem = problem_of_tensor(pass.input, "input");
  if (problem.empty() && is_last() && pass.kind == Kind::step)
    problem = problem_of_tensor(pass.target, "target");
  return problem;
}

void PipelineStep::start_agreement(const Pass& pass) {
  problem_ = problem_in(pass);
  std::vector<std::int64_t> likeness;
  own_word_ = static_cast<std::uint64_t>(pass.kind);
  if (is_first() && problem_.empty()) {
    own_word_ |= static_cast<std::uint64_t>(pass.input.size(0)) << kSamplesShift;
    likeness = pass.input.sizes().vec();
    likeness.push_back(static_cast<std::int64_t>(pass.input.scalar_type()));
  }
  for (const PipelineStage& stage : stages_) {
    for (const at::Tensor& parameter : stage.module->parameters()) {
      likeness.push_back(parameter.requires_grad() ? 1 : 0);
      likeness.push_back(static_cast<std::int64_t>(parameter.scalar_type()));
    }
  }
  const AutocastState autocast = AutocastState::current();
  likeness.push_back(autocast.is_enabled ? static_cast<std::int64_t>(autocast.dtype) : -1);
  likeness.push_back(autocast.is_enabled_on_gpus ? static_cast<std::int64_t>(autocast.dtype_on_gpus) : -1);
  auto& before = likeness_[pass.kind];
  own_word_ |= (problem_.empty() ? 0 : kHasProblem) | (before == likeness ? 0 : kIsChanged);
  before = std::move(likeness);
  agreement_ =
      TensorWork(communicator_.all_gather_async(ConstBuffer(&own_word_, 1, DType::uint64), Buffer(words_)));
}

void PipelineStep::agree(Pass& pass, BorderExchange& exchange) {
  if (std::exchange(pass.is_agreed, true)) return;
  agreement_.wait();
  bool has_problem = false, is_changed = false;
  std::vector<std::uint64_t> kinds;
  for (const std::uint64_t word : words_) {
    has_problem = has_problem || (word & kHasProblem) != 0;
    is_changed = is_changed || (word & kIsChanged) != 0;
    kinds.push_back(word & 1);
  }
  const auto refuse = [this](auto error) {
    likeness_.clear();
    throw Refused{std::make_exception_ptr(std::move(error))};
  };
  if (const auto odd = find_odd(kinds)) {
    const auto call_of = [&](int rank) {
      return "rank " + std::to_string(rank) + " calls " +
             (kinds[static_cast<std::size_t>(rank)] == 0 ? "step()" : "forward()");
    };
    refuse(MismatchError(call_of(odd->rank) + " where " + call_of(odd->usual), {.peer = odd->rank}));
  }
  if (has_problem) {
    const auto complaint = first_complaint(communicator_, problem_);
    refuse(InvalidArgumentError("rank " + std::to_string(complaint->rank) + ": " + complaint->text,
                                {.peer = complaint->rank}));
  }
  exchange.begin(!is_changed, static_cast<std::int64_t>(words_[0] >> kSamplesShift));
}

void PipelineStep::fail(BorderExchange& exchange) {
  const std::exception_ptr thrown = std::current_exception();
  error_ = thrown;
  if (!comes_to_all(thrown))
    error_ = leave(communicator_, problem_of([&] { std::rethrow_exception(thrown); }));
  held_.clear();
  agreement_ = {};  // it borrows memory
  exchange.settle();
  gradients_.leave("a step of its pipeline has failed");
  std::rethrow_exception(thrown);
}

}  // namespace kolo::train
