#include "kolo/train/averages.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <utility>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "ranks/holders.hpp"
#include "ranks/model.hpp"

namespace kolo {

Metrics average(const Metrics& metrics, Communicator& communicator, double weight) {
  std::string names;
  for (const auto& [name, value] : metrics) names += '\'' + name + "'\n";
  agree(communicator, "average", names);
  std::vector<double> weights(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(ConstBuffer(&weight, 1, DType::float64), Buffer(weights));
  double total = 0;
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    if (!std::isfinite(weights[rank]) || weights[rank] < 0) {
      throw InvalidArgumentError("average: rank " + std::to_string(rank) + " has a weight of " +
                                     std::to_string(weights[rank]) + ", which is no number of 0 or more",
                                 {.peer = static_cast<int>(rank), .collective = "average"});
    }
    total += weights[rank];
  }
  if (total == 0)
    throw InvalidArgumentError("average: the weight is 0 on all ranks", {.collective = "average"});
  std::vector<double> sums;
  for (const auto& [name, value] : metrics) sums.push_back(weight == 0 ? 0 : weight / total * value);
  communicator.all_reduce(Buffer(sums), ReduceOp::sum);
  Metrics means = metrics;
  std::size_t i = 0;
  for (auto& [name, value] : means) value = sums[i++];
  return means;
}

void average_parameters(const torch::nn::Module& module, Communicator& communicator) {
  const c10::NoGradGuard no_grad;
  const train::NamedTensors parameters = train::once(module.named_parameters());
  agree(communicator, "average_parameters", train::text_of_layout(parameters), [&] {
    for (const NamedTensor& parameter : parameters) require_collective(parameter.tensor);
  });
  const CallOptions as_it_is{.wire = Wire::native};  // KOLO_WIRE is meant for gradients
  std::vector<TensorWork> works;
  for (const NamedTensor& parameter : parameters)
    works.push_back(all_reduce_async(parameter.tensor, communicator, ReduceOp::average, as_it_is));
  wait_all(works);
}

void average_gradients(const std::vector<at::Tensor>& parameters, Communicator& communicator) {
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters) {
    if (train::shard_of(parameter)) {
      throw InvalidArgumentError("average_gradients(): a tensor of shape " + c10::str(parameter.sizes()) +
                                     " is in shards of a ShardedDataParallel, which averages by itself",
                                 {});
    }
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    require_collective(parameter.grad());
  }
  std::vector<TensorWork> works;
  for (const at::Tensor& parameter : parameters)
    works.push_back(all_reduce_async(parameter.grad(), communicator, ReduceOp::average));
  wait_all(works);
}

}  // namespace kolo
