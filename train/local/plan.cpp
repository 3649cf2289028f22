#include "local/plan.hpp"

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/tensor.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

AgreedModel agree_on_model(const char* who, const torch::nn::Module& module, Communicator& communicator,
                           const std::string& settings,
                           const std::function<void(const Model&)>& require_valid) {
  AgreedModel agreed;
  std::string lines;
  agree(communicator, who, lines, [&] {
    const Model model(module, DistributedDataParallelOptions{});
    require_valid(model);
    for (const NamedTensor& parameter : model.all()) {
      if (!shard_of(parameter.tensor)) continue;
      throw InvalidArgumentError(
          '\'' + parameter.name + "' is in shards of a ShardedDataParallel, which averages by itself", {});
    }
    agreed = {.parameters = model.trainable, .buffers = {}, .frozen = model.frozen, .all = model.all()};
    for (const NamedTensor& buffer : model.buffers) {
      if (!buffer.tensor.is_floating_point()) continue;
      dtype_of_tensor(buffer.tensor.scalar_type());
      agreed.buffers.push_back(buffer);
    }
    lines = settings + '\n' + text_of_layout(agreed.all);
  });
  return agreed;
}

AgreedModel agree_and_replicate(const char* who, const torch::nn::Module& module, Communicator& communicator,
                                const std::string& settings,
                                const std::function<void(const Model&)>& require_valid) {
  AgreedModel agreed = agree_on_model(who, module, communicator, settings, require_valid);
  Replicator(agreed.all).run(communicator, 0);
  return agreed;
}

NamedTensors averaged_of(const AgreedModel& model) {
  NamedTensors result = model.parameters;
  result.insert(result.end(), model.buffers.begin(), model.buffers.end());
  return result;
}

void pack(const AgreedModel& model, const NamedTensors& from, std::span<const FlatTensors> to,
          Communicator& communicator, const std::string& what) {
  std::string problem = what + problem_of([&] { kolo::pack(from, to); });
  if (problem == what) problem.clear();
  for (const NamedTensor& parameter : model.frozen) {
    if (parameter.tensor.requires_grad())
      problem = "parameter '" + parameter.name + "' was frozen at first and is not now: make a new object";
  }
  if (problem.empty()) return;
  abort_unless_failed(communicator, problem);
  throw InvalidArgumentError(problem, {});
}

std::vector<TensorWork> start_averages(std::span<const FlatTensors> flats, Communicator& communicator,
                                       const CallOptions& options) {
  std::vector<TensorWork> works;
  for (const FlatTensors& flat : flats)
    works.push_back(all_reduce_async(flat.flat(), communicator, ReduceOp::average, options));
  return works;
}

std::uint64_t bytes_of(std::span<const FlatTensors> flats) {
  std::uint64_t sum = 0;
  for (const FlatTensors& flat : flats) sum += flat.bytes();
  return sum;
}

}  // namespace kolo::train
