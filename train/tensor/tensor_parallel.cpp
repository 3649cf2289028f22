#include "kolo/train/parallel_layers.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/tensor.hpp"
#include "libtorch/random_state.hpp"
#include "optim/gradient_norm.hpp"
#include "ranks/agreement.hpp"
#include "ranks/parts.hpp"
#include "tensor/group_collectives.hpp"

namespace kolo {
namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + '.' + name;
}

void collect(const torch::nn::Module& module, const std::string& prefix, bool is_own,
             std::vector<TensorParallelParameter>& found) {
  const auto* const divided = dynamic_cast<const TensorParallelModule*>(&module);
  const auto slices =
      divided ? divided->sliced_parameters() : std::vector<TensorParallelModule::SlicedParameter>{};
  for (const auto& item : module.named_parameters(false)) {
    TensorParallelParameter parameter{.name = joined(prefix, item.key()), .parameter = item.value()};
    if (is_own) parameter.placement = Placement::own;
    const auto slice = std::ranges::find(slices, item.key(), &TensorParallelModule::SlicedParameter::name);
    if (slice != slices.end()) {
      parameter.placement = Placement::slice;
      parameter.dimension = slice->dimension;
      parameter.slice = slice->slice;
      parameter.whole = slice->whole;
    }
    found.push_back(std::move(parameter));
  }
  const bool owns = is_own || (divided && divided->owns_submodules());
  for (const auto& child : module.named_children())
    collect(*child.value(), joined(prefix, child.key()), owns, found);
}

/// Name, type and sizes of the parameters that only this rank has, a line each.
std::string text_of_own(const std::vector<TensorParallelParameter>& parameters) {
  std::ostringstream text;
  for (const auto& [name, parameter, placement, dimension, slice, whole] : parameters) {
    if (placement != Placement::own) continue;
    text << name << ' ' << static_cast<int>(parameter.scalar_type()) << ' ' << parameter.dim();
    for (const std::int64_t size : parameter.sizes()) text << ' ' << size;
    text << '\n';
  }
  return text.str();
}

/// Collective: adds what each rank alone has.
void gather_own(const std::vector<TensorParallelParameter>& parameters, Communicator& group,
                std::map<std::string, at::Tensor>& whole) {
  for (int owner = 0; owner < group.size(); ++owner) {
    std::istringstream text(train::text_from(group, text_of_own(parameters), owner));
    std::string name;
    int type = 0;
    std::size_t dimensions = 0;
    while (text >> name >> type >> dimensions) {
      std::vector<std::int64_t> sizes(dimensions);
      for (std::int64_t& size : sizes) text >> size;
      at::Tensor value = at::empty(sizes, static_cast<at::ScalarType>(type));
      if (owner == group.rank()) {
        const auto own = std::ranges::find(parameters, name, &TensorParallelParameter::name);
        value = own->parameter.detach().clone(at::MemoryFormat::Contiguous);
      }
      broadcast_async(value, owner, group).wait();
      whole[name] = value;
    }
  }
}

std::uint64_t hash_of_state(const at::Generator& generator) {
  const at::Tensor state = train::RandomState::of(generator).state;
  return train::hash_of(state.data_ptr(), state.nbytes());
}

}  // namespace

std::vector<TensorParallelParameter> tensor_parallel_parameters(const torch::nn::Module& module) {
  std::vector<TensorParallelParameter> all, once;
  collect(module, "", false, all);
  std::unordered_set<const c10::TensorImpl*> met;
  for (TensorParallelParameter& parameter : all) {
    if (met.insert(parameter.parameter.unsafeGetTensorImpl()).second) once.push_back(std::move(parameter));
  }
  return once;
}

void agree_on_module(const char* who, Communicator group, const std::string& text,
                     const at::Generator* generator, const std::function<void()>& require_valid) {
  if (!group.valid()) throw InvalidArgumentError(std::string(who) + ": the communicator is not valid", {});
  std::ostringstream lines;
  lines << text << '\n';
  if (generator) {
    lines << "a generator of random numbers, for initial values, in the state " << std::hex
          << hash_of_state(*generator) << '\n';
  }
  agree(group, who, lines.str(), require_valid);
}

void mark_slices(const torch::nn::Module& module, const Communicator& group) {
  std::vector<at::Tensor> slices;
  for (const TensorParallelParameter& parameter : tensor_parallel_parameters(module)) {
    if (parameter.placement != Placement::replicated) slices.push_back(parameter.parameter);
  }
  train::mark_parts(slices, group,
                    {.of = "a module divided among a group",
                     .for_norms = "clip_tensor_parallel_gradients() or Grid::clip_gradients()",
                     .is_divided = true});
}

double tensor_parallel_squared_norm(const torch::nn::Module& module, Communicator group) {
  const c10::NoGradGuard no_grad;
  double squares = 0;
  for (const auto& parameter : tensor_parallel_parameters(module)) {
    const at::Tensor& gradient = parameter.parameter.grad();
    // What all ranks have counts once.
    const bool counts = group.rank() == 0 || parameter.placement != Placement::replicated;
    if (gradient.defined() && counts) squares += train::sum_of_squares(gradient);
  }
  group.all_reduce(Buffer(&squares, 1, DType::float64));
  return squares;
}

double clip_tensor_parallel_gradients(const torch::nn::Module& module, double max_norm, Communicator group) {
  train::check_max_norm(max_norm);
  const double norm = std::sqrt(tensor_parallel_squared_norm(module, std::move(group)));
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : tensor_parallel_parameters(module))
    gradients.push_back(parameter.parameter.grad());
  train::scale_to_norm(gradients, norm, max_norm);
  return norm;
}

std::map<std::string, at::Tensor> gather_whole_parameters(const torch::nn::Module& module,
                                                          Communicator group) {
  const c10::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> whole;
  const auto parameters = tensor_parallel_parameters(module);
  for (const auto& parameter : parameters) {
    const at::Tensor value = parameter.parameter.detach();
    if (parameter.placement == Placement::replicated) {
      whole[parameter.name] = value.clone();
    } else if (parameter.placement == Placement::slice) {
      // Slices may be of units of several elements: every rank tells its length.
      std::vector<std::int64_t> lengths(static_cast<std::size_t>(group.size()));
      group.all_gather(ConstBuffer(&parameter.slice.length, 1, DType::int64), Buffer(lengths));
      whole[parameter.name] = train::gather_of_group(value, parameter.dimension, lengths, group);
    }
  }
  gather_own(parameters, group, whole);
  return whole;
}

void load_whole_parameters(const torch::nn::Module& module, const std::map<std::string, at::Tensor>& whole) {
  const c10::NoGradGuard no_grad;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  for (const auto& parameter : tensor_parallel_parameters(module)) {
    const auto found = whole.find(parameter.name);
    if (found == whole.end())
      throw InvalidArgumentError("there is no parameter '" + parameter.name + '\'', {});
    at::Tensor value = found->second;
    const bool is_slice = parameter.placement == Placement::slice;
    if (is_slice && value.dim() > parameter.dimension && value.size(parameter.dimension) == parameter.whole)
      value = value.narrow(parameter.dimension, parameter.slice.begin, parameter.slice.length);
    if (value.sizes() != parameter.parameter.sizes()) {
      throw InvalidArgumentError(
          "parameter '" + parameter.name + "' has another shape than " + c10::str(found->second.sizes()), {});
    }
    pairs.emplace_back(parameter.parameter, value);
  }
  for (auto& [parameter, value] : pairs) parameter.copy_(value);
}

}  // namespace kolo
