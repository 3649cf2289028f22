#include "libtorch/gradient_listener.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

/// Autograd calls it right after the gradient of one parameter was accumulated.
class Hook final : public torch::autograd::FunctionPostHook {
 public:
  Hook(GradientListener& listener, std::size_t index) : listener_(listener), index_(index) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    listener_.on_gradient(index_);
    return outputs;
  }
  GradientListener& listener() noexcept { return listener_; }

 private:
  GradientListener& listener_;
  std::size_t index_;
};

/// Part of one run of autograd's engine: its reach() is a callback at the end of the run. It is destroyed
/// with the run, also with one that an exception broke off before its end. A device's thread may destroy a
/// run late, when backward() has returned: an outermost run is left at its end.
class Ending {
 public:
  explicit Ending(GradientListener& listener) : listener_(listener) {}
  ~Ending() {
    if (!is_left_) listener_.leave_run(is_reached_);
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  void reach() {
    is_reached_ = true;
    listener_.end_run();
    if (is_nested_run()) return;
    is_left_ = true;
    listener_.leave_run(true);
  }

 private:
  GradientListener& listener_;
  bool is_reached_ = false, is_left_ = false;
};

thread_local std::uint64_t seen = 0;

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& node) {
  if (std::string_view(node.name()).ends_with("AccumulateGrad")) ++seen;
  return nullptr;
}

}  // namespace

std::uintptr_t add_gradient_hook(const NodePtr& accumulator, GradientListener& listener, std::size_t index) {
  return accumulator->add_post_hook(std::make_unique<Hook>(listener, index));
}

GradientListener* listener_of(const at::Tensor& parameter) {
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  if (!accumulator) return nullptr;
  const auto& hooks = accumulator->post_hooks();
  const auto found = std::ranges::find_if(
      hooks, [](const auto& hook) { return dynamic_cast<Hook*>(hook.get()) != nullptr; });
  return found == hooks.end() ? nullptr : &static_cast<Hook*>(found->get())->listener();
}

void require_unheard(const std::string& name, const at::Tensor& parameter) {
  if (listener_of(parameter) == nullptr) return;
  throw InvalidArgumentError("another object averages the gradient of '" + name +
                                 "': a parameter has one DistributedDataParallel or ShardedDataParallel",
                             {});
}

// Delegates, so that what is whole already is left where a later listener throws.
WholeParameters::WholeParameters(std::span<const at::Tensor> parameters) : WholeParameters() {
  for (const at::Tensor& parameter : parameters) {
    GradientListener* const listener = listener_of(parameter);
    if (listener == nullptr || std::ranges::find(listeners_, listener) != listeners_.end()) continue;
    listener->make_whole();
    listeners_.push_back(listener);
  }
}

WholeParameters::~WholeParameters() {
  for (GradientListener* const listener : listeners_) listener->leave_whole();
}

void queue_end(GradientListener& listener) {
  const auto ending = std::make_shared<Ending>(listener);
  torch::autograd::Engine::get_default_engine().queue_callback([ending] { ending->reach(); });
}

bool is_nested_run() {
  using torch::autograd::GraphTask;
  using Nodes = decltype(GraphTask::nodes_in_graph_);
  // libtorch tells of the current GraphTask only where this member of it is.
  const auto* const nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  static_assert(std::is_same_v<decltype(nodes), const Nodes* const>);
  if (nodes == nullptr) return false;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // fine for a class without virtual bases
  constexpr std::size_t kOffset = offsetof(GraphTask, nodes_in_graph_);
#pragma GCC diagnostic pop
  const auto* const address = reinterpret_cast<const std::byte*>(nodes) - kOffset;
  return reinterpret_cast<const GraphTask*>(address)->reentrant_depth_ > 0;
}

void LeafWatch::start() {
  stop();
  seen_before_ = seen;
  thread_ = std::this_thread::get_id();
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&before).scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

void LeafWatch::stop() noexcept {
  // Another thread's callback stays with it, and does no harm: hooks of gradients on a device run in that
  // device's thread, and the next start() removes it.
  if (thread_ != std::this_thread::get_id()) return;
  const at::CallbackHandle handle = std::exchange(handle_, at::INVALID_CALLBACK_HANDLE);
  if (handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(handle);
}

bool LeafWatch::has_seen() const noexcept {
  return seen != seen_before_;
}

}  // namespace kolo::train
