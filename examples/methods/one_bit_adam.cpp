#include "methods/one_bit_adam.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/tensor.hpp"
#include "methods/one_bit_agreement.hpp"

namespace kolo::methods {
namespace {

using torch::optim::AdamOptions;
using torch::optim::AdamParamState;

constexpr const char* kArchive = "one_bit_adam";

std::int64_t number_in(torch::serialize::InputArchive& archive, const std::string& name) {
  c10::IValue value;
  archive.read(name, value);
  return value.toInt();
}

/// A parameter with what an optimizer has for it.
struct AdamParameter {
  at::Tensor tensor;
  torch::optim::AdamParamState* state;
  const torch::optim::AdamOptions* options;
};

/// Working memory: an optimizer's state is as it was until apply().
class MomentumBuckets {
 public:
  MomentumBuckets(const Averaged& parameters, std::uint64_t bucket_bytes);

  /// Throws InvalidArgumentError where the hook's state is that of other parameters.
  void check(const GradientHook& hook) const;
  /// Packs what this rank makes of the momenta with its gradients. `parameters` as at construction.
  void fill(std::span<const AdamParameter> parameters);
  /// Collective: puts the averages over all ranks in their place. Returns whether they are finite, which is
  /// the same on all ranks.
  bool average(GradientHook& hook, Communicator& communicator);
  /// Makes them the optimizer's momenta, and moves the parameters.
  void apply(std::span<const AdamParameter> parameters) const;

 private:
  std::vector<FlatTensors> buckets_;
  std::vector<at::Tensor> momenta_;  ///< of each parameter: a view of its bucket
};

MomentumBuckets::MomentumBuckets(const Averaged& parameters, std::uint64_t bucket_bytes) {
  std::vector<NamedTensor> named;
  std::uint64_t bytes = 0;
  for (const auto& parameter : parameters) {
    named.push_back({parameter.name, parameter.tensor});
    bytes += parameter.tensor.nbytes();
    if (bytes < bucket_bytes && momenta_.size() + named.size() < parameters.size()) continue;
    const FlatTensors& bucket = buckets_.emplace_back(named);
    for (std::size_t part = 0; part < named.size(); ++part) momenta_.push_back(bucket.view(part));
    named.clear();
    bytes = 0;
  }
}

void MomentumBuckets::check(const GradientHook& hook) const {
  for (const FlatTensors& bucket : buckets_) hook.check(bucket.parts());
}

void MomentumBuckets::fill(std::span<const AdamParameter> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [parameter, state, options] = parameters[i];
    const auto [beta1, beta2] = options->betas();
    at::Tensor& momentum = momenta_[i];
    momentum.copy_(state->exp_avg()).mul_(beta1);
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter);
    if (gradient.is_sparse()) throw InvalidArgumentError("OneBitAdam takes no sparse gradients", {});
    if (options->weight_decay() != 0) gradient = gradient.add(parameter, options->weight_decay());
    // An infinite gradient becomes NaN here, so that the step is skipped.
    const at::Tensor least = gradient.abs().mul_(std::sqrt(1 - beta2));
    momentum.addcdiv_(gradient, at::maximum(state->exp_avg_sq().sqrt(), least).add_(options->eps()),
                      1 - beta1);
  }
}

bool MomentumBuckets::average(GradientHook& hook, Communicator& communicator) {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    const Buffer momenta = buckets_[index].buffer();
    hook.average({.gradients = {static_cast<float*>(momenta.data), momenta.count},
                  .parts = buckets_[index].parts(),
                  .index = index},
                 communicator);
  }
  return are_finite(buckets_);
}

void MomentumBuckets::apply(std::span<const AdamParameter> parameters) const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [parameter, state, options] = parameters[i];
    state->step(state->step() + 1);
    const double correction = 1 - std::pow(std::get<0>(options->betas()), static_cast<double>(state->step()));
    state->exp_avg().copy_(momenta_[i]);
    at::Tensor moved = parameter;
    moved.add_(state->exp_avg(), -options->lr() / correction);
  }
}

/// The ranks that are in the middle of a step learn of an error that is this rank's own. What the
/// communicator or a collective throws comes to all of them.
void tell_others(Communicator& communicator, const std::exception& error) {
  if (dynamic_cast<const Error*>(&error) != nullptr &&
      dynamic_cast<const InvalidArgumentError*>(&error) == nullptr)
    return;
  communicator.abort(problem_of([] { throw; }));
}

}  // namespace

struct OneBitAdam::State {
  State(DistributedDataParallelBase& model_, const OneBitAdamOptions& options_)
      : model(model_),
        options(options_),
        parameters(averaged_by(model)),
        buckets(parameters, options.bucket_bytes),
        averagings(model.total().steps) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      indices[parameters[i].tensor.unsafeGetTensorImpl()] = i;
  }

  /// In the order of `parameters`. Those that have no state get one, as if all their gradients had been zero.
  std::vector<AdamParameter> gather(OneBitAdam& optimizer) const {
    std::vector<AdamParameter> result(parameters.size());
    std::size_t found = 0, wanted = 0;
    for (auto& group : optimizer.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        wanted += parameter.requires_grad() ? 1 : 0;
        const auto index = indices.find(parameter.unsafeGetTensorImpl());
        if (index == indices.end()) continue;
        ++found;
        auto& state = state_of(optimizer, parameter);
        if (!state) state = fresh_state(parameter);
        result[index->second] = {parameter, static_cast<AdamParamState*>(state.get()),
                                 static_cast<const AdamOptions*>(&group.options())};
      }
    }
    if (found != parameters.size() || wanted != found)
      throw InvalidArgumentError("parameters were added to or taken from OneBitAdam's groups: make a new one",
                                 {});
    return result;
  }

  static std::unique_ptr<AdamParamState> fresh_state(const at::Tensor& parameter) {
    auto state = std::make_unique<AdamParamState>();
    state->exp_avg(at::zeros_like(parameter));
    state->exp_avg_sq(at::zeros_like(parameter));
    return state;
  }

  void freeze(OneBitAdam& optimizer) {
    for (auto& [parameter, state, adam] : gather(optimizer)) {
      if (state->step() == 0) continue;
      const double beta2 = std::get<1>(adam->betas());
      at::Tensor& square = state->exp_avg_sq();
      square.div_(1 - std::pow(beta2, static_cast<double>(state->step())));
      state->exp_avg().div_(square.sqrt().add_(adam->eps()));
    }
    set_frozen(true);
  }

  void freeze_where_due(OneBitAdam& optimizer) {
    if (!is_frozen && steps >= options.freeze_after_steps) freeze(optimizer);
  }

  void set_frozen(bool frozen) {
    is_frozen = frozen;
    if (frozen && !local_gradients) local_gradients.emplace(model);
    if (!frozen) local_gradients.reset();
  }

  bool gradients_are_finite() const {
    return std::ranges::all_of(parameters, [](const auto& parameter) {
      const at::Tensor& gradient = parameter.tensor.grad();
      return !gradient.defined() || gradient.isfinite().all().template item<bool>();
    });
  }

  /// After the freeze. Returns whether the step counts.
  bool step(OneBitAdam& optimizer) {
    const auto all = gather(optimizer);
    buckets.fill(all);
    const bool is_finite = buckets.average(*hook, model.communicator());
    hook->end_step(is_finite);
    if (is_finite) buckets.apply(all);
    return is_finite;
  }

  DistributedDataParallelBase& model;
  const OneBitAdamOptions options;
  const Averaged parameters;
  std::unordered_map<const c10::TensorImpl*, std::size_t> indices;  ///< of `parameters`
  MomentumBuckets buckets;
  const std::shared_ptr<GradientHook> hook = make_gradient_hook("one_bit");
  std::uint64_t averagings;  ///< by the model, until the last step
  std::uint64_t steps = 0;
  bool is_frozen = false;
  bool last_step_counted = true;
  std::optional<DistributedDataParallelBase::NoSync> local_gradients;  ///< after the freeze
};

OneBitAdam::OneBitAdam(DistributedDataParallelBase& model, const AdamOptions& adam,
                       const OneBitAdamOptions& options)
    : OneBitAdam(model, group_of(model), adam, options) {}

OneBitAdam::OneBitAdam(DistributedDataParallelBase& model,
                       std::vector<torch::optim::OptimizerParamGroup> groups, const AdamOptions& defaults,
                       const OneBitAdamOptions& options)
    : Adam(agreed(model, std::move(groups), defaults, options), defaults),
      one_bit_(std::make_unique<State>(model, options)) {
  model.check(*this);
}

OneBitAdam::~OneBitAdam() = default;

at::Tensor OneBitAdam::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_graph(true);
    loss = closure();
  }
  const c10::NoGradGuard no_grad;
  State& own = *one_bit_;
  if (own.is_frozen) {
    try {
      own.last_step_counted = own.step(*this);
    } catch (const std::exception& error) {
      tell_others(own.model.communicator(), error);
      throw;
    }
  } else {
    if (std::exchange(own.averagings, own.model.total().steps) == own.model.total().steps) {
      throw InvalidArgumentError(
          "backward() has averaged no gradients since OneBitAdam's last step: in its warm-up the last "
          "backward() before a step must not be under no_sync()",
          {});
    }
    own.last_step_counted = own.gradients_are_finite();
    if (own.last_step_counted) Adam::step();
  }
  own.steps += own.last_step_counted ? 1 : 0;
  own.freeze_where_due(*this);
  return loss;
}

bool OneBitAdam::is_frozen() const noexcept {
  return one_bit_->is_frozen;
}

bool OneBitAdam::last_step_counted() const noexcept {
  return one_bit_->last_step_counted;
}

GradientHook& OneBitAdam::hook() noexcept {
  return *one_bit_->hook;
}

void OneBitAdam::save(torch::serialize::OutputArchive& archive) const {
  Adam::save(archive);
  const Communicator& communicator = one_bit_->model.communicator();
  torch::serialize::OutputArchive own(archive.compilation_unit());
  own.write("steps", c10::IValue(static_cast<std::int64_t>(one_bit_->steps)));
  own.write("is_frozen", c10::IValue(static_cast<std::int64_t>(one_bit_->is_frozen)));
  own.write("rank", c10::IValue(static_cast<std::int64_t>(communicator.rank())));
  own.write("ranks", c10::IValue(static_cast<std::int64_t>(communicator.size())));
  c10::Dict<std::string, at::Tensor> left_out;
  for (const auto& [name, values] : one_bit_->hook->state()) left_out.insert(name, at::tensor(values));
  own.write("left_out", c10::IValue(left_out));
  archive.write(kArchive, own);
}

void OneBitAdam::load(torch::serialize::InputArchive& archive) {
  load_or_refuse("OneBitAdam", [&] { Adam::load(archive); });
  State& own = *one_bit_;
  const auto all = own.gather(*this);
  std::int64_t adam_steps = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    adam_steps = std::max(adam_steps, all[i].state->step());
    for (const at::Tensor& moment : {all[i].state->exp_avg(), all[i].state->exp_avg_sq()}) {
      if (moment.sizes() == all[i].tensor.sizes() && moment.scalar_type() == at::kFloat) continue;
      std::ostringstream text;
      text << "the moments of '" << own.parameters[i].name << "' are " << c10::toString(moment.scalar_type())
           << ' ' << moment.sizes() << " there, and the parameter is " << all[i].tensor.sizes();
      throw InvalidArgumentError(text.str(), {});
    }
  }
  own.hook->set_state({});
  torch::serialize::InputArchive one_bit;
  const bool is_ours = archive.try_read(kArchive, one_bit);
  own.steps = static_cast<std::uint64_t>(is_ours ? number_in(one_bit, "steps") : adam_steps);
  own.set_frozen(is_ours && number_in(one_bit, "is_frozen") != 0);
  own.freeze_where_due(*this);
  const Communicator& communicator = own.model.communicator();
  if (!is_ours || number_in(one_bit, "rank") != communicator.rank() ||
      number_in(one_bit, "ranks") != communicator.size())
    return;
  c10::IValue left_out;
  one_bit.read("left_out", left_out);
  HookState state;
  if (!left_out.isGenericDict()) return;  // of kolo 0.1, whose checkpoints hold the hooks too
  for (const auto& entry : left_out.toGenericDict()) {
    const at::Tensor values = entry.value().toTensor();
    const auto* const begin = values.data_ptr<float>();
    state.emplace(entry.key().toStringRef(), std::vector<float>(begin, begin + values.numel()));
  }
  own.hook->set_state(state);
  own.buckets.check(*own.hook);
}

}  // namespace kolo::methods
