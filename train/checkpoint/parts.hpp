// What a rank has of models and optimizers, for a checkpoint.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/transfer.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/parallel_model.hpp"

namespace kolo::train {

/// Saves or loads how the gradients of these parameters are laid out, by each object that averages them.
/// Loads nothing where there is none, or it is of another model.
void transfer_layouts(const std::string& name, const std::vector<PlacedParameter>& parameters,
                      Transfer& transfer);

/// What a hook keeps: NAME/PART of each part of its state, and an empty tensor NAME, as there may be none.
void transfer_hook(const std::string& name, GradientHook& hook, Transfer& transfer);

/// Of an optimizer's parameters their names, and the regions of them that this rank has.
using PlacedParameters = std::map<const c10::TensorImpl*, PlacedParameter>;

/// One of libtorch's or kolo's, whose states are known: SGD, Adam, AdamW, RMSprop, Adagrad, LARS, LAMB,
/// SparseAdam. What derives from them may keep more.
bool has_known_states(const torch::optim::Optimizer& optimizer);
/// As the optimizer with these options makes it for a parameter, without tensors.
std::unique_ptr<torch::optim::OptimizerParamState> make_state(const torch::optim::OptimizerOptions& options);
/// Saves or loads NAME/PARAMETER/exp_avg and the like, for the parameter's region, and NAME/options/GROUP.
void transfer_optimizer(const std::string& name, bool is_own, torch::optim::Optimizer& optimizer,
                        const PlacedParameters& placed, Transfer& transfer);

/// Calls `visit(name, value)` for each number (std::int64_t&) and tensor of a state of this type, if it is.
template <typename State, typename Visit>
bool visit_as(torch::optim::OptimizerParamState& any, const Visit& visit) {
  auto* const state = dynamic_cast<State*>(&any);
  if (state == nullptr) return false;
  if constexpr (requires { state->step(); }) visit("step", state->step());
  if constexpr (requires { state->sum(); }) visit("sum", state->sum());
  if constexpr (requires { state->momentum_buffer(); }) visit("momentum_buffer", state->momentum_buffer());
  if constexpr (requires { state->exp_avg(); }) visit("exp_avg", state->exp_avg());
  if constexpr (requires { state->exp_avg_sq(); }) visit("exp_avg_sq", state->exp_avg_sq());
  if constexpr (requires { state->max_exp_avg_sq(); }) visit("max_exp_avg_sq", state->max_exp_avg_sq());
  if constexpr (requires { state->square_avg(); }) visit("square_avg", state->square_avg());
  if constexpr (requires { state->grad_avg(); }) visit("grad_avg", state->grad_avg());
  return true;
}
template <typename Visit>
void visit_state(torch::optim::OptimizerParamState& state, const Visit& visit) {
  using namespace torch::optim;
  if (!visit_as<SGDParamState>(state, visit) && !visit_as<AdamParamState>(state, visit) &&
      !visit_as<AdamWParamState>(state, visit) && !visit_as<RMSpropParamState>(state, visit) &&
      !visit_as<AdagradParamState>(state, visit))
    throw std::runtime_error("an optimizer keeps a state of an unknown type");
}

}  // namespace kolo::train
