#include "kolo/train/averages.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <sstream>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "libtorch/archives.hpp"
#include "libtorch/gradient_listener.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"
#include "ranks/model.hpp"

namespace kolo {
namespace {

using Save = std::function<void(std::ostream&)>;
using Load = std::function<void(std::istream&)>;

/// `what` names the object in errors.
void copy_object(const std::string& what, const Save& save, const Load& load, Communicator& communicator,
                 int root) {
  const bool is_root = communicator.rank() == root;
  std::string text, problem;
  if (is_root) {
    problem = problem_of([&] {
      std::ostringstream stream;
      save(stream);
      text = stream.str();
    });
  }
  bool is_saved = problem.empty();
  communicator.broadcast(Buffer(&is_saved, 1, DType::uint8), root);
  if (is_saved) text = train::text_from(communicator, std::move(text), root);
  if (is_saved && !is_root) {
    problem = problem_of([&] {
      std::istringstream stream(text);
      load(stream);
    });
  }
  const auto complaint = train::first_complaint(communicator, problem);
  if (!complaint) return;
  throw Error("rank " + std::to_string(complaint->rank) +
                  (complaint->rank == root ? " cannot save " : " cannot load ") + what + ": " +
                  complaint->text,
              {.peer = complaint->rank, .collective = "broadcast"});
}

}  // namespace

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
  for (const at::Tensor& parameter : parameters) {
    const CallOptions of_equal_parts{.label = train::part_text_of(parameter)};
    works.push_back(all_reduce_async(parameter.grad(), communicator, ReduceOp::average, of_equal_parts));
  }
  wait_all(works);
}

void broadcast(const torch::nn::Module& module, Communicator& communicator, int root) {
  const train::WholeParameters whole(module.parameters());
  train::NamedTensors tensors;
  std::string lines;
  agree(communicator, "broadcast", lines, [&] {
    tensors = train::tensors_of(module);
    lines = train::text_of_layout(tensors);
  });
  train::Replicator(tensors).run(communicator, root);
}

void broadcast(torch::optim::Optimizer& optimizer, Communicator& communicator, int root) {
  const auto save = [&](std::ostream& to) {
    torch::serialize::OutputArchive archive;
    train::save_whole(optimizer, archive);
    archive.save_to(to);
  };
  const auto load = [&](std::istream& from) {
    torch::serialize::InputArchive archive;
    archive.load_from(from);
    train::load_whole(optimizer, archive);
  };
  copy_object("the optimizer", save, load, communicator, root);
}

void broadcast_object(const Save& save, const Load& load, Communicator& communicator, int root) {
  copy_object("the object", save, load, communicator, root);
}

}  // namespace kolo
