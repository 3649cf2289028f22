#include "kolo/train/recompute.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

#include "kolo/error.hpp"
#include "libtorch/thread_state.hpp"

namespace kolo::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Autocast as it is, without its cache: a weight that is cast in the first call, which records no graph,
/// must not be taken for one with a graph later.
AutocastState uncached_autocast() {
  AutocastState state = AutocastState::current();
  state.has_cache = false;
  return state;
}

/// The call, and what it saw besides its inputs.
struct FirstCall : torch::CustomClassHolder {
  std::function<variable_list(const variable_list&)> function;
  RandomStates random;
  AutocastState autocast;
};

struct ComputedAnew : torch::autograd::Function<ComputedAnew> {
  /// `anchor` requires a gradient, so that there is a backward where parameters alone do.
  static variable_list forward(AutogradContext* context, const at::Tensor& anchor, at::TensorList inputs,
                               const c10::intrusive_ptr<FirstCall>& call) {
    static_cast<void>(anchor);
    context->save_for_backward(inputs.vec());
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    const AutocastScope scope(call->autocast);
    const RandomRecord record(call->random, inputs);
    return call->function(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (c10::GradMode::is_enabled())
      throw InvalidArgumentError("recompute() has no second derivative (create_graph)", {});
    const auto capsule = context->saved_data["call"].toCapsule();
    const auto& call = static_cast<FirstCall&>(*capsule);
    variable_list inputs;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      inputs.push_back(saved.defined() ? saved.detach() : saved);
      if (saved.defined() && saved.requires_grad()) inputs.back().set_requires_grad(true);
    }
    variable_list roots, seeds;
    {
      const AutocastScope autocast(call.autocast);
      const RandomScope random(call.random);
      const c10::AutoGradMode with_graph(true);
      const variable_list outputs = call.function(inputs);
      if (outputs.size() != gradients.size())
        throw InvalidArgumentError("recompute(): the function returned " + std::to_string(outputs.size()) +
                                       " tensors in backward, and " + std::to_string(gradients.size()) +
                                       " before",
                                   {});
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (!gradients[i].defined() || !outputs[i].requires_grad()) continue;
        roots.push_back(outputs[i]);
        seeds.push_back(gradients[i]);
      }
    }
    if (!roots.empty()) torch::autograd::backward(roots, seeds);
    variable_list result{at::Tensor()};
    for (const at::Tensor& input : inputs) result.push_back(input.defined() ? input.grad() : at::Tensor());
    result.emplace_back();  // of `call`
    return result;
  }
};

}  // namespace

std::vector<at::Tensor> recompute(std::function<variable_list(const variable_list&)> function,
                                  const variable_list& inputs) {
  if (!c10::GradMode::is_enabled()) return function(inputs);
  const auto call = c10::make_intrusive<FirstCall>();
  call->function = std::move(function);
  call->autocast = uncached_autocast();
  return ComputedAnew::apply(at::zeros({}).set_requires_grad(true), at::TensorList(inputs), call);
}

}  // namespace kolo::train
