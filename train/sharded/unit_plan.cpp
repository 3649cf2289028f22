#include "sharded/unit_plan.hpp"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"

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

std::vector<PlannedUnit> plan_units(const torch::nn::Module& module, const std::vector<std::string>& names) {
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
  for (const NamedTensor& parameter : once(module.named_parameters())) {
    const bool is_frozen = !parameter.tensor.requires_grad();
    if (is_frozen && !problem_of([&] { buffer_of(parameter.tensor); }).empty()) continue;
    const auto& of_parameter = users[parameter.tensor.unsafeGetTensorImpl()];
    const bool is_shared = of_parameter.size() != 1;
    const std::string name = is_shared ? "" : units[of_parameter.front()];
    const auto is_of_module = [&](const PlannedUnit& unit) { return unit.name == name; };
    const auto found = std::ranges::find_if(result, [&](const PlannedUnit& unit) {
      return is_of_module(unit) && unit.is_frozen == is_frozen &&
             unit.parameters[0].tensor.scalar_type() == parameter.tensor.scalar_type();
    });
    if (found != result.end()) {
      found->parameters.push_back(parameter);
      continue;
    }
    const auto last = std::find_if(result.rbegin(), result.rend(), is_of_module);
    result.insert(last == result.rend() ? result.end() : last.base(),
                  {name, {parameter}, is_frozen, is_shared});
  }
  return result;
}

}  // namespace kolo::train
