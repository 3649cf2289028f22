#include "reducer.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>

#include "bucket_assignment.hpp"
#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "unused_parameters.hpp"

namespace kolo::train {

/// Autograd calls it right after the gradient of one parameter was accumulated.
class Reducer::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(Reducer& reducer, std::size_t index) : reducer_(reducer), index_(index) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    reducer_.on_gradient(index_);
    return outputs;
  }

 private:
  Reducer& reducer_;
  std::size_t index_;
};

Reducer::Reducer(std::vector<NamedTensor> parameters, Communicator communicator,
                 const DistributedDataParallelOptions& options)
    : parameters_(std::move(parameters)), communicator_(std::move(communicator)), options_(options) {
  states_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) states_[i].tensor = parameters_[i].tensor;
  // Backward runs against the order in which parameters are registered and used, as a rule.
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  build(order);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    Parameter& state = states_[i];
    state.accumulator = torch::autograd::impl::grad_accumulator(state.tensor);
    state.hook = state.accumulator->add_post_hook(std::make_unique<Hook>(*this, i));
  }
}

Reducer::~Reducer() {
  for (const Parameter& state : states_) state.accumulator->del_post_hook(state.hook);
  for (Bucket& bucket : buckets_) bucket.settle();
}

void Reducer::build(std::span<const std::size_t> order) {
  std::vector<ParameterSize> sizes;
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& parameter : parameters_) {
    sizes.push_back({parameter.tensor.nbytes(), dtype_of_tensor(parameter.tensor.scalar_type())});
    tensors.push_back(parameter.tensor);
  }
  std::vector<Bucket> buckets;
  for (const auto& members :
       assign_buckets(sizes, order, options_.first_bucket_bytes, options_.bucket_bytes)) {
    buckets.emplace_back(members, tensors);
  }
  buckets_ = std::move(buckets);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t s = 0; s < buckets_[b].slots().size(); ++s) {
      Parameter& state = states_[buckets_[b].slots()[s].parameter];
      state.bucket = b;
      state.slot = s;
    }
  }
}

void Reducer::require_sound() {
  if (error_) std::rethrow_exception(error_);
  if (in_backward_) {
    // finish() never came. Other ranks may have averaged buckets that this rank did not start: the next
    // all-reduce would mix two steps.
    fail(std::make_exception_ptr(Error("an earlier backward() broke off on rank " +
                                           std::to_string(communicator_.rank()) +
                                           ", so the ranks' gradients no longer belong together",
                                       {})));
  }
}

void Reducer::fail(std::exception_ptr error) {
  error_ = error;
  std::rethrow_exception(error);
}

void Reducer::expect_backward_from(std::span<const at::Tensor> outputs) {
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators;
  for (const Parameter& state : states_) accumulators.push_back(state.accumulator);
  const std::vector<bool> reached = reachable(outputs, accumulators);
  for (std::size_t i = 0; i < states_.size(); ++i) states_[i].expected = reached[i];
}

void Reducer::on_gradient(std::size_t index) {
  states_[index].used = true;
  if (!synchronized_) return;
  if (error_) std::rethrow_exception(error_);
  const c10::NoGradGuard no_grad;
  try {
    if (!in_backward_) begin();
    mark_ready(index, true);
  } catch (...) {
    fail(std::current_exception());
  }
}

void Reducer::begin() {
  in_backward_ = true;
  next_bucket_ = 0;
  ready_order_.clear();
  missing_.clear();
  for (const Bucket& bucket : buckets_) missing_.push_back(bucket.slots().size());
  for (Parameter& state : states_) state.ready = false;
  torch::autograd::Engine::get_default_engine().queue_callback([this] { finish(); });
  if (!options_.find_unused_parameters) return;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].expected) mark_ready(i, false);
  }
}

void Reducer::mark_ready(std::size_t index, bool has_gradient) {
  Parameter& state = states_[index];
  if (state.ready) {
    throw InvalidArgument(
        "the gradient of '" + parameters_[index].name +
            "' was ready twice in one backward(): is the loss computed from a forward() other than "
            "the last?",
        {});
  }
  state.ready = true;
  ready_order_.push_back(index);
  Bucket& bucket = buckets_[state.bucket];
  if (has_gradient) {
    bucket.collect(state.slot, state.tensor);
  } else {
    if (!state.used) {
      const at::Tensor& gradient = state.tensor.grad();
      state.kept = gradient.defined() ? gradient.clone() : at::Tensor();
    }
    bucket.collect_unused(state.slot, state.tensor);
  }
  --missing_[state.bucket];
  start_complete_buckets();
}

void Reducer::start_complete_buckets() {
  // In the order of the buckets, never in that of completion: all ranks must make the same calls in the same
  // order.
  while (next_bucket_ < buckets_.size() && missing_[next_bucket_] == 0) {
    buckets_[next_bucket_++].start(communicator_);
  }
}

void Reducer::finish() {
  const c10::NoGradGuard no_grad;
  try {
    complete_unready();
    // Ranks that used a parameter nowhere leave its gradient alone; they must agree on that.
    std::vector<std::uint8_t> used(states_.size(), 1);
    Work agreement;
    if (options_.find_unused_parameters) {
      for (std::size_t i = 0; i < states_.size(); ++i) used[i] = states_[i].used ? 1 : 0;
      agreement = communicator_.all_reduce_async(Buffer(used), ReduceOp::max);
    }
    const auto waiting = Bucket::Clock::now();
    std::exception_ptr error;
    try {
      for (Bucket& bucket : buckets_) bucket.wait();
    } catch (...) {
      error = std::current_exception();
    }
    try {
      agreement.wait();  // also after an error: it borrows `used`
    } catch (...) {
      if (!error) error = std::current_exception();
    }
    if (error) std::rethrow_exception(error);
    account(waiting, Bucket::Clock::now());
    attach_results(used);
    in_backward_ = false;
    if (!rebuilt_ && options_.rebuild_buckets && !options_.find_unused_parameters) rebuild();
    rebuilt_ = true;
  } catch (...) {
    fail(std::current_exception());
  }
}

void Reducer::complete_unready() {
  std::string names;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].ready) continue;
    if (options_.find_unused_parameters) {
      mark_ready(i, false);
    } else {
      names += (names.empty() ? "'" : ", '") + parameters_[i].name + '\'';
    }
  }
  if (names.empty()) return;
  throw InvalidArgument("rank " + std::to_string(communicator_.rank()) + " has no gradient for " + names +
                            " after backward(): every parameter must take part in the loss, or set "
                            "find_unused_parameters",
                        {});
}

void Reducer::attach_results(std::span<const std::uint8_t> used_anywhere) {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    Parameter& state = states_[i];
    const at::Tensor& view = buckets_[state.bucket].slots()[state.slot].view;
    at::Tensor& gradient = state.tensor.mutable_grad();
    if (used_anywhere[i] != 0) {
      gradient = view;
    } else if (state.kept && state.kept->defined()) {
      gradient.copy_(*state.kept);
    }
    state.kept.reset();
    state.used = false;
    state.expected = true;
  }
}

void Reducer::account(Bucket::Clock::time_point waiting, Bucket::Clock::time_point done) {
  last_step_ = {};
  last_step_.steps = 1;
  last_step_.exposed = done - waiting;
  // Buckets overlap each other: count each moment before `waiting` once. They are sorted by their start.
  Bucket::Clock::time_point counted{};
  for (const Bucket& bucket : buckets_) {
    ++last_step_.all_reduces;
    last_step_.bytes += bucket.bytes();
    const auto begin = std::max(bucket.started(), counted);
    const auto end = std::min(bucket.ended(), waiting);
    if (begin < end) {
      last_step_.hidden += end - begin;
      counted = end;
    }
  }
  total_ += last_step_;
  if (!options_.timeline) return;
  options_.timeline->span("wait", "compute", waiting, done);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    options_.timeline->span("bucket " + std::to_string(b), "buckets", buckets_[b].started(),
                            buckets_[b].ended(), "\"bytes\":" + std::to_string(buckets_[b].bytes()));
  }
}

void Reducer::rebuild() {
  // Ranks may have seen different orders; they must all follow one.
  std::vector<std::uint64_t> order(ready_order_.begin(), ready_order_.end());
  communicator_.broadcast(Buffer(order), 0);
  const std::vector<Bucket> old = std::move(buckets_);  // keeps the gradients readable
  build(std::vector<std::size_t>(order.begin(), order.end()));
  for (Parameter& state : states_) {
    if (state.tensor.grad().defined()) buckets_[state.bucket].collect(state.slot, state.tensor);
  }
}

}  // namespace kolo::train
