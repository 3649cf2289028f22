#include "methods/one_bit_agreement.hpp"

#include <cmath>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"

namespace kolo::methods {
namespace {

using torch::optim::AdamOptions;

const AdamOptions& options_of(const torch::optim::OptimizerParamGroup& group) {
  const auto* const options = dynamic_cast<const AdamOptions*>(&group.options());
  if (options == nullptr)
    throw InvalidArgumentError("a parameter group has options of another optimizer", {});
  return *options;
}

void require_in_range(const AdamOptions& options) {
  const auto require = [](bool is_in_range, const char* name, double value) {
    if (!is_in_range) throw InvalidArgumentError(std::string(name) + " is " + std::to_string(value), {});
  };
  const auto is_rate = [](double value) { return value >= 0 && std::isfinite(value); };
  const auto [beta1, beta2] = options.betas();
  require(is_rate(options.lr()), "lr", options.lr());
  require(is_rate(options.eps()), "eps", options.eps());
  require(is_rate(options.weight_decay()), "weight_decay", options.weight_decay());
  require(beta1 >= 0 && beta1 < 1, "the first beta", beta1);
  require(beta2 >= 0 && beta2 < 1, "the second beta", beta2);
  if (options.amsgrad())
    throw InvalidArgumentError("amsgrad keeps a maximum of second moments, which cannot be frozen", {});
}

void require_all_parameters(const Averaged& averaged, const ParameterGroups& groups) {
  std::unordered_map<const c10::TensorImpl*, int> times;
  for (const auto& group : groups) {
    for (const at::Tensor& parameter : group.params()) ++times[parameter.unsafeGetTensorImpl()];
  }
  for (const PlacedParameter& parameter : averaged) {
    const at::Tensor& tensor = parameter.tensor;
    const std::string which = "parameter '" + parameter.name + "' ";
    if (parameter.has_sparse_gradients) throw InvalidArgumentError(which + "has sparse gradients", {});
    if (tensor.scalar_type() != at::kFloat)
      throw InvalidArgumentError(which + "is of type " + c10::toString(tensor.scalar_type()) + ", not Float",
                                 {});
    const auto found = times.find(tensor.unsafeGetTensorImpl());
    if (found == times.end())
      throw InvalidArgumentError(
          which + "is in no parameter group, and no gradient is averaged after the freeze", {});
    if (found->second > 1) throw InvalidArgumentError(which + "is in parameter groups twice", {});
    times.erase(found);
  }
  for (const auto& group : groups) {
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.requires_grad() || !times.contains(parameter.unsafeGetTensorImpl())) continue;
      std::ostringstream text;
      text << "a parameter of shape " << parameter.sizes()
           << " in a group is none whose gradient the model averages";
      throw InvalidArgumentError(text.str(), {});
    }
  }
}

/// A line for the options, and one for each parameter with its group.
std::string text_of(const Averaged& averaged, const ParameterGroups& groups,
                    const OneBitAdamOptions& options) {
  std::ostringstream text;
  text.precision(17);
  text << "freeze_after_steps " << options.freeze_after_steps << ", bucket_bytes " << options.bucket_bytes
       << '\n';
  std::unordered_map<const c10::TensorImpl*, const char*> names;
  for (const auto& parameter : averaged)
    names[parameter.tensor.unsafeGetTensorImpl()] = parameter.name.c_str();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const AdamOptions& adam = options_of(groups[i]);
    text << "parameter group " << i << " with lr " << adam.lr() << ", betas " << std::get<0>(adam.betas())
         << " and " << std::get<1>(adam.betas()) << ", eps " << adam.eps() << ", weight_decay "
         << adam.weight_decay() << '\n';
    for (const at::Tensor& parameter : groups[i].params()) {
      const auto found = names.find(parameter.unsafeGetTensorImpl());
      text << (found == names.end() ? "a frozen one" : found->second) << " in group " << i << '\n';
    }
  }
  return text.str();
}

}  // namespace

Averaged averaged_by(const DistributedDataParallelBase& model) {
  Averaged averaged = model.placed().parameters();
  std::erase_if(averaged, [](const PlacedParameter& parameter) { return !parameter.is_trained; });
  return averaged;
}

ParameterGroups group_of(const DistributedDataParallelBase& model) {
  std::vector<at::Tensor> tensors;
  for (const PlacedParameter& parameter : averaged_by(model)) tensors.push_back(parameter.tensor);
  return {torch::optim::OptimizerParamGroup(tensors)};
}

ParameterGroups agreed(DistributedDataParallelBase& model, ParameterGroups groups,
                       const AdamOptions& defaults, const OneBitAdamOptions& options) {
  Communicator& communicator = model.communicator();
  const Averaged averaged = averaged_by(model);
  for (auto& group : groups) {
    if (!group.has_options()) group.set_options(std::make_unique<AdamOptions>(defaults));
  }
  std::string lines;
  agree(communicator, "OneBitAdam", lines, [&] {
    if (options.freeze_after_steps == 0)
      throw InvalidArgumentError("freeze_after_steps is 0: the second moment comes of the steps before", {});
    if (!model.keeps_ranks_equal())
      throw InvalidArgumentError("the model has a hook with which ranks' parameters differ", {});
    require_in_range(defaults);
    for (const auto& group : groups) require_in_range(options_of(group));
    require_all_parameters(averaged, groups);
    lines = text_of(averaged, groups, options);
  });
  return groups;
}

}  // namespace kolo::methods
