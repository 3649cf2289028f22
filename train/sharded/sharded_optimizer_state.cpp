#include "kolo/train/sharded_optimizer_state.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <sstream>
#include <unordered_set>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "libtorch/optimizer_archive.hpp"
#include "libtorch/optimizer_state.hpp"

namespace kolo {
namespace {

using torch::optim::OptimizerParamState;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

InputArchive readable(OutputArchive& archive) {
  std::stringstream bytes;
  archive.save_to(bytes);
  InputArchive result;
  result.load_from(bytes);
  return result;
}

std::map<std::string, c10::IValue> values_of(InputArchive& archive) {
  std::map<std::string, c10::IValue> result;
  for (const std::string& key : archive.keys()) {
    // A tensor that was written as one is not found as a value.
    at::Tensor tensor;
    c10::IValue value;
    if (archive.try_read(key, tensor)) {
      result[key] = tensor;
    } else if (archive.try_read(key, value)) {
      result[key] = value;
    }
  }
  return result;
}

std::map<std::string, c10::IValue> values_of(const OptimizerParamState& state) {
  OutputArchive archive;
  state.serialize(archive);
  InputArchive in = readable(archive);
  return values_of(in);
}

void write(OutputArchive& archive, const std::map<std::string, c10::IValue>& values) {
  for (const auto& [key, value] : values) archive.write(key, value);
}

/// One number for each element of the parameter, where it has as many elements as the shard.
bool is_of_elements(const c10::IValue& value, const at::Tensor& shard) {
  return value.isTensor() && value.toTensor().sizes() == shard.sizes();
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& counts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) sum += count;
  return sum;
}

/// Makes the state of each shard, which only a step does. The shards stay as they are.
void make_states(torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& shards) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> before, gradients;
  for (const at::Tensor& shard : shards) {
    before.push_back(shard.detach().clone());
    gradients.push_back(std::exchange(shard.mutable_grad(), at::zeros_like(shard.detach())));
  }
  optimizer.step();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].detach().copy_(before[i]);
    shards[i].mutable_grad() = std::move(gradients[i]);
  }
}

}  // namespace

ShardedOptimizerState::ShardedOptimizerState(ShardedDataParallelBase& model,
                                             torch::optim::Optimizer& optimizer)
    : model_(model), optimizer_(optimizer), parameters_(model.sharded_parameters()) {
  std::unordered_set<const c10::TensorImpl*> wanted, given;
  for (const auto& parameter : parameters_) wanted.insert(parameter.shard.unsafeGetTensorImpl());
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) given.insert(parameter.unsafeGetTensorImpl());
  }
  if (wanted != given)
    throw InvalidArgumentError("the optimizer is not one of the model's shards, which parameters() gives",
                               {});
}

void ShardedOptimizerState::gather() {
  whole_.assign(parameters_.size(), {});
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, sizes, shard, counts] = parameters_[i];
    const auto& state = train::state_of(optimizer_, shard);
    if (!state) continue;  // on all ranks alike, as they make their steps together
    for (auto& [key, value] : values_of(*state)) {
      if (!is_of_elements(value, shard)) {
        whole_[i][key] = value;
        continue;
      }
      const at::Tensor mine = value.toTensor().contiguous();
      const at::Tensor all = at::empty({static_cast<std::int64_t>(sum_of(counts))}, mine.options());
      all_gather_async(mine, all, model_.communicator(), counts).wait();
      whole_[i][key] = all;
    }
  }
}

void ShardedOptimizerState::save(OutputArchive& archive) const {
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    OutputArchive inner(archive.compilation_unit());
    write(inner, whole_[i]);
    archive.write(parameters_[i].name, inner);
  }
  for (std::size_t i = 0; i < optimizer_.param_groups().size(); ++i) {
    OutputArchive options(archive.compilation_unit());
    optimizer_.param_groups()[i].options().serialize(options);
    archive.write("options of group " + std::to_string(i), options);
  }
}

void ShardedOptimizerState::load(InputArchive& archive) {
  std::vector<at::Tensor> shards;
  for (const auto& parameter : parameters_) shards.push_back(parameter.shard);
  optimizer_.state().clear();
  make_states(optimizer_, shards);
  const auto rank = static_cast<std::size_t>(model_.communicator().rank());
  for (const auto& [name, sizes, shard, counts] : parameters_) {
    InputArchive inner;
    if (!archive.try_read(name, inner)) throw InvalidArgumentError("there is no state of '" + name + "'", {});
    auto& state = train::state_of(optimizer_, shard);
    auto values = values_of(inner);
    if (values.empty() || !state) {  // no step was made before it was saved
      state.reset();
      continue;
    }
    std::int64_t begin = 0;
    for (std::size_t r = 0; r < rank; ++r) begin += static_cast<std::int64_t>(counts[r]);
    const auto count = static_cast<std::int64_t>(counts[rank]);
    for (auto& [key, value] : values) {
      if (!value.isTensor() || value.toTensor().dim() == 0) continue;
      const at::Tensor all = value.toTensor();
      if (all.numel() != static_cast<std::int64_t>(sum_of(counts)))
        throw InvalidArgumentError("the state of '" + name + "' is that of a parameter of another size", {});
      value = all.slice(0, begin, begin + count).clone().view(shard.sizes());
    }
    OutputArchive own;
    write(own, values);
    InputArchive in = readable(own);
    state->serialize(in);
  }
  for (std::size_t i = 0; i < optimizer_.param_groups().size(); ++i) {
    InputArchive options;
    archive.read("options of group " + std::to_string(i), options);
    optimizer_.param_groups()[i].options().serialize(options);
  }
}

}  // namespace kolo
