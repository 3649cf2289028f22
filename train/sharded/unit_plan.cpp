#include "sharded/unit_plan.hpp"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

/// The children; in place of a list of modules, what is in it.
std::vector<std::string> default_names(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& child : module.named_children()) {
    const bool is_list = child.value()->as<torch::nn::Sequential>() != nullptr ||
                         child.value()->as<torch::nn::ModuleList>() != nullptr;
    if (!is_list) names.push_back(child.key());
    if (!is_list) continue;
    for (const auto& inner : child.value()->named_children())
      names.push_back(child.key() + '.' + inner.key());
  }
  return names;
}

void require_apart(const std::vector<std::string>& names) {
  for (const std::string& one : names) {
    for (const std::string& other : names) {
      if (&one == &other || !(other + '.').starts_with(one + '.')) continue;
      throw InvalidArgumentError(
          "`units` names '" + one + "' and '" + other + "', which is the same or within it", {});
    }
  }
}

}  // namespace

std::vector<PlannedUnit> plan_units(const torch::nn::Module& module, const std::vector<std::string>& names,
                                    const NamedTensors& parameters) {
  require_apart(names);
  const auto modules = module.named_modules("", false);
  const std::vector<std::string> units = names.empty() ? default_names(module) : names;
  // Of each parameter: which units use it.
  std::unordered_map<const c10::TensorImpl*, std::vector<std::size_t>> users;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!modules.contains(units[i]))
      throw InvalidArgumentError("`units` names '" + units[i] + "', which is no submodule of the model", {});
    for (const at::Tensor& parameter : modules[units[i]]->parameters()) {
      auto& of_parameter = users[parameter.unsafeGetTensorImpl()];
      if (of_parameter.empty() || of_parameter.back() != i) of_parameter.push_back(i);
    }
  }
  std::vector<PlannedUnit> result;
  std::map<std::pair<std::string, at::ScalarType>, std::size_t> known;
  for (const NamedTensor& parameter : parameters) {
    const auto& of_parameter = users[parameter.tensor.unsafeGetTensorImpl()];
    const bool is_shared = of_parameter.size() != 1;
    const std::string name = is_shared ? "" : units[of_parameter.front()];
    const auto [found, is_new] = known.try_emplace({name, parameter.tensor.scalar_type()}, result.size());
    if (is_new) result.push_back({name, {}, is_shared});
    result[found->second].parameters.push_back(parameter);
  }
  return result;
}

}  // namespace kolo::train
