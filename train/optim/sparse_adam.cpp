#include "kolo/train/optim.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "kolo/error.hpp"

namespace kolo {
namespace {

using torch::optim::AdamOptions;
using torch::optim::AdamParamState;

/// Takes gradients away from their parameters, and puts them back.
class SetAside {
 public:
  SetAside() = default;
  ~SetAside() {
    for (auto& [parameter, gradient] : gradients) parameter.mutable_grad() = gradient;
  }
  SetAside(const SetAside&) = delete;
  SetAside& operator=(const SetAside&) = delete;
  void take(const at::Tensor& parameter) {
    gradients.emplace_back(parameter, std::exchange(parameter.mutable_grad(), {}));
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> gradients;
};

/// Of a parameter that has none yet.
std::unique_ptr<AdamParamState> new_state(const at::Tensor& parameter) {
  auto state = std::make_unique<AdamParamState>();
  state->step(0);
  state->exp_avg(at::zeros_like(parameter));
  state->exp_avg_sq(at::zeros_like(parameter));
  return state;
}

void step_rows(at::Tensor parameter, const at::Tensor& sparse, AdamParamState& state,
               const AdamOptions& options) {
  const auto [beta1, beta2] = options.betas();
  state.step(state.step() + 1);
  const auto step = static_cast<double>(state.step());
  const at::Tensor gradient = sparse.coalesce();
  const at::Tensor rows = gradient.indices().view(-1);
  const at::Tensor values = gradient.values();

  at::Tensor mean = state.exp_avg().index_select(0, rows).mul_(beta1).add_(values, 1 - beta1);
  at::Tensor square =
      state.exp_avg_sq().index_select(0, rows).mul_(beta2).addcmul_(values, values, 1 - beta2);
  state.exp_avg().index_copy_(0, rows, mean);
  state.exp_avg_sq().index_copy_(0, rows, square);
  square.sqrt_().div_(std::sqrt(1 - std::pow(beta2, step))).add_(options.eps());
  mean.div_(square).mul_(-options.lr() / (1 - std::pow(beta1, step)));
  parameter.index_add_(0, rows, mean);
}

}  // namespace

at::Tensor SparseAdam::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_graph(true);
    loss = closure();
  }
  const c10::NoGradGuard no_grad;
  SetAside aside;
  std::vector<const AdamOptions*> options;
  for (auto& group : param_groups()) {
    const auto& of_group = static_cast<const AdamOptions&>(group.options());
    for (const at::Tensor& parameter : group.params()) {
      const at::Tensor& gradient = parameter.grad();
      if (!gradient.defined() || !gradient.is_sparse()) continue;
      if (of_group.weight_decay() != 0 || of_group.amsgrad()) {
        throw InvalidArgumentError(
            "SparseAdam takes sparse gradients without weight_decay and amsgrad alone, which reach every "
            "row: put "
            "the tables into a parameter group without",
            {});
      }
      if (gradient._nnz() > 0 && gradient.sparse_dim() != 1)
        throw InvalidArgumentError("SparseAdam takes sparse gradients of whole rows alone", {});
      aside.take(parameter);
      options.push_back(&of_group);
    }
  }
  torch::optim::Adam::step();  // those that are dense
  for (std::size_t i = 0; i < options.size(); ++i) {
    auto& [parameter, gradient] = aside.gradients[i];
    if (gradient._nnz() == 0) continue;  // as zero_grad() leaves it
    auto& state = state_of(*this, parameter);
    if (!state) state = new_state(parameter);
    step_rows(parameter, gradient, static_cast<AdamParamState&>(*state), *options[i]);
  }
  return loss;
}

}  // namespace kolo
