#include "gradients/reducer.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "kolo/error.hpp"
#include "libtorch/gradient_listener.hpp"
#include "ranks/agreement.hpp"

namespace kolo::train {

Reducer::Reducer(std::vector<NamedTensor> parameters, std::vector<std::unique_ptr<Averaging>> kinds,
                 Communicator communicator, ReducerOptions options)
    : parameters_(std::move(parameters)),
      communicator_(std::move(communicator)),
      options_(std::move(options)),
      kinds_(std::move(kinds)),
      outlasts_backward_(
          std::ranges::any_of(kinds_, [](const auto& kind) { return kind->outlasts_backward(); })),
      order_(parameters_.size()),
      hears_of_all_(std::ranges::any_of(kinds_, [](const auto& kind) { return kind->hears_of_all(); })) {
  for (const NamedTensor& parameter : parameters_) states_.push_back({.tensor = parameter.tensor});
  std::iota(order_.rbegin(), order_.rend(), std::size_t{0});
  find_places();
  if (options_.static_graph) graph_ = std::make_unique<StaticGraph>(parameters_, communicator_.rank());
  for (std::size_t i = 0; i < states_.size(); ++i) watch(i);
}

void Reducer::watch(std::size_t index) {
  Parameter& state = states_[index];
  state.accumulator = torch::autograd::impl::grad_accumulator(state.tensor);
  // One gradient cannot be averaged twice; and after a failure the old object may still be in scope.
  if (Reducer* const other = of(state.tensor)) other->retire(parameters_[index].name);
  state.hook = add_gradient_hook(state.accumulator, *this, index);
}

Reducer* Reducer::of(const at::Tensor& parameter) {
  Reducer* const reducer = listening_to(parameter);
  return reducer != nullptr && reducer->options_.is_replaceable ? reducer : nullptr;
}

Reducer* Reducer::listening_to(const at::Tensor& parameter) {
  return dynamic_cast<Reducer*>(listener_of(parameter));
}

Reducer::~Reducer() {
  remove_hooks();
}

void Reducer::remove_hooks() noexcept {
  try {
    finish_step();
  } catch (...) {
    // The other ranks know; steps that this one has not made belong to averages that it does not have.
  }
  for (Parameter& state : states_) {
    if (state.hook != 0) state.accumulator->del_post_hook(std::exchange(state.hook, 0));
  }
  settle();
}

void Reducer::settle() noexcept {
  for (const auto& kind : kinds_) kind->settle();
}

void Reducer::retire(const std::string& parameter) noexcept {
  remove_hooks();
  if (error_) return;
  error_ = std::make_exception_ptr(InvalidArgumentError(
      "another DistributedDataParallel was made for '" + parameter +
          "' and has taken its place: a parameter's gradient is averaged by the newest one alone",
      {}));
}

void Reducer::find_places() {
  for (const auto& kind : kinds_) {
    const auto& buckets = kind->members();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      for (std::size_t s = 0; s < buckets[b].size(); ++s) {
        Parameter& state = states_[buckets[b][s]];
        state.kind = kind.get();
        state.bucket = b;
        state.slot = s;
      }
    }
  }
}

void Reducer::require_no_error() const {
  if (error_) std::rethrow_exception(error_);
}

void Reducer::require_sound() {
  require_no_error();
  guard([&] {
    for (const auto& kind : kinds_) kind->require_sound();
  });
  if (in_backward_) {
    throw InvalidArgumentError(
        "forward() was called by a backward() that averages gradients: let backward() compute parts of the "
        "model anew (checkpointing), not DistributedDataParallel itself",
        {});
  }
}

void Reducer::require_watched() {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    Parameter& state = states_[i];
    if (torch::autograd::impl::try_get_grad_accumulator(state.tensor) == state.accumulator) continue;
    if (!state.tensor.requires_grad()) continue;  // should it be thawed, it has the old one again
    // It was loaded from an archive, say, which gives it other memory and a new accumulator.
    if (state.kind->is_alike(state.bucket, state.slot, state.tensor)) {
      state.accumulator->del_post_hook(std::exchange(state.hook, 0));
      watch(i);
      continue;
    }
    const at::Device device = state.tensor.device();
    throw InvalidArgumentError(
        "parameter '" + parameters_[i].name + "' is " +
            (device == state.device ? std::string("another one than")
                                    : "on " + device.str() + " and was on " + state.device.str()) +
            " when " + options_.owner +
            " was made, which sees its gradients no longer: after to() and the like make a new one",
        {});
  }
}

void Reducer::fail() {
  error_ = tell_others(communicator_);
  settle();
  throw;
}

void Reducer::begin_pass() {
  if (is_local_) return;
  if (is_awaited_ && leaf_watch_.has_seen()) ++steps_;
  is_awaited_ = true;
  leaf_watch_.start();
}

void Reducer::on_gradient(std::size_t index) {
  if (std::exchange(is_awaited_, false)) leaf_watch_.stop();
  // A function may have had no gradient to give: autograd calls us all the same.
  const bool has_gradient = states_[index].tensor.grad().defined();
  if (has_gradient) states_[index].used = true;
  if (is_local_ && !hears_of_all_) return;
  require_no_error();
  const c10::NoGradGuard no_grad;
  try {
    is_between_runs_ = false;
    const bool begins = !is_local_ && !in_backward_;
    begin_backward();
    if (begins) begin();
    if (!std::exchange(end_is_queued_, true)) queue_end(*this);
    if (is_local_) return;
    if (begins && graph_) begin_static_pass();
    if (!graph_ || graph_->accumulated(index)) mark_ready(index, has_gradient);
  } catch (...) {
    fail();
  }
}

void Reducer::begin_backward() {
  if (!hears_of_all_ || std::exchange(in_run_, true)) return;
  for (const auto& kind : kinds_) kind->begin_backward();
}

void Reducer::end_backward(bool has_averaged) {
  if (!std::exchange(in_run_, false)) return;
  for (const auto& kind : kinds_) kind->end_backward(has_averaged);
}

void Reducer::begin() {
  if (join_ != nullptr && !std::exchange(has_share_, false)) share_ = join_->wait();
  if (join_ == nullptr) share_ = {};
  finish_step();  // of buckets that forward did not use
  if (outlasts_backward_ && check_) check_(communicator_);
  ++steps_;
  in_backward_ = true;
  ready_order_.clear();
  for (Parameter& state : states_) state.ready = false;
  for (const auto& kind : kinds_) kind->begin(share_, steps_);
  if (!options_.find_unused_parameters) return;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].expected) mark_ready(i, false);
  }
}

void Reducer::mark_ready(std::size_t index, bool has_gradient) {
  Parameter& state = states_[index];
  const std::string& name = parameters_[index].name;
  if (state.ready && !state.expected) {
    throw InvalidArgumentError(
        "'" + name +
            "' got a gradient, but what forward() returned does not depend on it: return all "
            "that the loss depends on, or call prepare_backward({}) after forward()",
        {});
  }
  if (state.ready) {
    throw InvalidArgumentError(
        "the gradient of '" + name +
            "' was ready twice in one backward(): parts of the model that backward() computes "
            "anew (checkpointing) must not share parameters with others, or set static_graph",
        {});
  }
  if (const at::Tensor& gradient = state.tensor.grad(); gradient.defined()) {
    if (gradient.requires_grad()) {
      throw InvalidArgumentError(
          "the gradient of '" + name +
              "' has a graph of its own (create_graph), which averaging would lose: take "
              "gradients of gradients with torch::autograd::grad()",
          {});
    }
  }
  state.ready = true;
  ready_order_.push_back(index);
  if (!has_gradient && !state.used) {
    const at::Tensor& gradient = state.tensor.grad();
    state.kept = gradient.defined() ? gradient.clone() : at::Tensor();
  }
  state.kind->collect(state.bucket, state.slot, state.tensor);
}

void Reducer::end_run() {
  require_no_error();
  const bool is_outermost = !is_nested_run();
  if (!in_backward_) {
    if (is_outermost) end_local();
    return;
  }
  if (is_deferred_) {
    is_between_runs_ = is_outermost;
    return;
  }
  if (graph_) {
    // Parts that are computed anew may accumulate again what is complete.
    if (!is_outermost) return;
    end_static_pass();
  }
  if (is_outermost || (!hears_of_all_ && std::ranges::all_of(states_, &Parameter::ready))) finish();
}

void Reducer::end_local() {
  const c10::NoGradGuard no_grad;
  guard([&] { end_backward(false); });
}

void Reducer::finish_deferred() {
  require_no_error();
  if (!in_backward_) {
    guard([&] {
      begin_backward();
      begin();
    });
  }
  finish();
}

void Reducer::leave_run(bool is_over) noexcept {
  end_is_queued_ = false;
  if ((!in_backward_ && !in_run_) || is_between_runs_ || error_) return;
  if (!is_over) {
    // An exception that a function or a hook threw. The other ranks may have averaged buckets that this rank
    // did not start, and its next all-reduce would mix two steps.
    leave("an exception broke off its backward(), so the ranks' gradients no longer belong together");
    return;
  }
  try {
    // The run was nested. That it was called from is current again, and has the rest of the gradients.
    queue_end(*this);
    end_is_queued_ = true;
  } catch (const std::exception&) {
    if (!error_) error_ = std::current_exception();
  }
}

void Reducer::make_whole() {
  require_no_error();
  for (const auto& kind : kinds_) kind->make_whole();
}

void Reducer::leave_whole() noexcept {
  for (const auto& kind : kinds_) kind->leave_whole();
}

void Reducer::leave(const std::string& reason) noexcept {
  if (error_) return;
  error_ = train::leave(communicator_, reason);
  settle();
}

void Reducer::finish() {
  const c10::NoGradGuard no_grad;
  guard([&] {
    complete_unready();
    std::vector<std::uint8_t> used(states_.size(), kUsed);
    Work agreement;
    const bool agrees = options_.find_unused_parameters || graph_;
    if (graph_ && graph_->used_anywhere() != nullptr) {
      used = *graph_->used_anywhere();
    } else if (agrees) {
      for (std::size_t i = 0; i < states_.size(); ++i) used[i] = use_of(states_[i]);
      agreement = communicator_.all_reduce_async(Buffer(used), ReduceOp::max);
    }
    std::exception_ptr error;
    const auto attempt = [&error](auto&& action) {
      try {
        action();
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    };
    // Here and not in forward(): all ranks come here, as often and in the same order as each other.
    if (buffers_ != nullptr) attempt([&] { buffers_->start(communicator_, share_.root); });
    const auto waiting = Averaging::Clock::now();
    for (const auto& kind : kinds_) attempt([&] { kind->wait(); });
    attempt([&] { agreement.wait(); });  // also after an error: it borrows `used`
    for (const auto& kind : kinds_) {
      if (agrees && !error) attempt([&] { kind->share_use(used); });
    }
    if (graph_ && !error) graph_->agree(used);
    if (buffers_ != nullptr) attempt([&] { buffers_->finish(); });
    if (error) std::rethrow_exception(error);
    if (!outlasts_backward_) account(waiting, Averaging::Clock::now());
    if (options_.hook) options_.hook->end_step(averages_are_finite());
    attach_results(used);
    for (const auto& kind : kinds_) kind->end();
    in_backward_ = false;
    if (!outlasts_backward_ && check_) check_(communicator_);
    rebuild_if_better();
    end_backward(true);
  });
}

bool Reducer::averages_are_finite() const {
  return std::ranges::all_of(kinds_, [](const auto& kind) { return kind->are_finite(); });
}

void Reducer::complete_unready() {
  std::string names;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].ready) continue;
    if (options_.find_unused_parameters || states_[i].used) {  // under no_sync()
      mark_ready(i, false);
    } else {
      names += (names.empty() ? "'" : ", '") + parameters_[i].name + '\'';
    }
  }
  if (names.empty()) return;
  throw InvalidArgumentError("rank " + std::to_string(communicator_.rank()) + " has no gradient for " +
                                 names +
                                 " after backward(): every parameter must take part in the loss, or set "
                                 "find_unused_parameters or static_graph",
                             {});
}

/// Ranks agree on the largest: what no rank used keeps its gradient.
std::uint8_t Reducer::use_of(const Parameter& state) const {
  if (state.used) return kUsed;
  return !graph_ && share_.contributes && state.tensor.grad().defined() ? kUnused : kNoGradient;
}

void Reducer::attach_results(std::span<const std::uint8_t> used_anywhere) {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    Parameter& state = states_[i];
    at::Tensor& gradient = state.tensor.mutable_grad();
    if (used_anywhere[i] == kUsed) {
      gradient = state.kind->result(state.bucket, state.slot);
    } else {
      // The slot keeps the average, of which all ranks have the same bits.
      if (state.kept && state.kept->defined()) gradient = std::move(*state.kept);
      state.kind->forget(state.bucket, state.slot);
    }
    // A rank without data does what the other ranks do: an optimizer skips what has no gradient.
    if (used_anywhere[i] == kNoGradient && !graph_ && !share_.contributes) gradient = at::Tensor();
    state.kept.reset();
    state.used = false;
    state.expected = true;
  }
  has_expectation_ = false;
}

void Reducer::finish_step() {
  if (!outlasts_backward_) return;
  if (error_) std::rethrow_exception(error_);
  guard([&] {
    for (const auto& kind : kinds_) kind->finish_step();
  });
  last_step();  // adds it to the total before the next one takes its place
}

void Reducer::lay_out(std::span<const std::size_t> order, std::span<const std::size_t> ends) {
  order_.assign(order.begin(), order.end());
  for (const auto& kind : kinds_) kind->lay_out(order, ends);
  find_places();
}

void Reducer::rebuild_if_better() {
  if (!options_.may_rebuild) return;
  if (!std::exchange(rebuilt_, true)) {
    // Ranks may have seen different orders; they must all follow one.
    std::vector<std::uint64_t> order(ready_order_.begin(), ready_order_.end());
    communicator_.broadcast(Buffer(order), share_.root);
    lay_out(std::vector<std::size_t>(order.begin(), order.end()));
    return;
  }
  for (const auto& kind : kinds_) {
    if (kind->improve(ready_order_, share_.root)) find_places();
  }
}

Reducer::Layout Reducer::layout() const {
  Layout layout{rebuilt_, order_, {}}, measured{rebuilt_, {}, {}};
  for (const auto& kind : kinds_) {
    for (const auto& bucket : kind->members())
      measured.order.insert(measured.order.end(), bucket.begin(), bucket.end());
    if (auto ends = kind->ends(); !ends.empty()) measured.ends = std::move(ends);
  }
  return measured.ends.empty() ? layout : measured;
}

void Reducer::restore(const Layout& layout) {
  std::vector<std::size_t> all(states_.size()), sorted = layout.order;
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::ranges::sort(sorted);
  if (!options_.may_rebuild || sorted != all) return;
  rebuilt_ = layout.is_rebuilt;
  lay_out(layout.order, layout.ends);
}

}  // namespace kolo::train
