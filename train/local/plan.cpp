#include "local/plan.hpp"

#include <optional>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/tensor.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

Model agree_on_model(const char* who, const torch::nn::Module& module, Communicator& communicator,
                     bool replicates, const std::string& settings,
                     const std::function<void(const Model&)>& require_valid) {
  std::optional<Model> model;
  NamedTensors all;
  std::string lines;
  agree(communicator, who, lines, [&] {
    model.emplace(module, DistributedDataParallelOptions{});
    if (require_valid) require_valid(*model);
    all = model->all();
    for (const NamedTensor& one : all) {
      if (!shard_of(one.tensor)) continue;
      throw InvalidArgumentError(
          '\'' + one.name + "' is in shards of a ShardedDataParallel, which averages by itself", {});
    }
    std::erase_if(model->buffers,
                  [](const NamedTensor& buffer) { return !buffer.tensor.is_floating_point(); });
    for (const NamedTensor& buffer : model->buffers) dtype_of_tensor(buffer.tensor.scalar_type());
    lines = settings + '\n' + text_of_layout(all);
  });
  if (replicates) Replicator(all).run(communicator, 0);
  return std::move(*model);
}

void pack(const Model& model, const NamedTensors& from, std::span<const FlatTensors> to,
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
