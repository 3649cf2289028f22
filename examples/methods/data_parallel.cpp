#include "methods/data_parallel.hpp"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/custom_class.h>

#include <algorithm>

#include "methods/data_parallel/pass.hpp"

namespace kolo::methods {
namespace {

using torch::autograd::variable_list;

/// The tensors at `indices`.
variable_list chosen(const std::vector<at::Tensor>& tensors, const std::vector<std::size_t>& indices) {
  variable_list result;
  for (const std::size_t i : indices) result.push_back(tensors[i]);
  return result;
}

/// The inverse: as many as `count`, the rest undefined.
variable_list spread_out(const variable_list& tensors, const std::vector<std::size_t>& indices,
                         std::size_t count) {
  variable_list result(count);
  for (std::size_t i = 0; i < indices.size(); ++i) result[indices[i]] = tensors[i];
  return result;
}

/// A pass, and what of it autograd knows: it takes no undefined tensors.
struct KnownPass : torch::CustomClassHolder {
  std::shared_ptr<Pass> pass;
  std::vector<std::size_t> inputs;   ///< those that need a gradient
  std::vector<std::size_t> outputs;  ///< those that are defined
  std::size_t all_outputs = 0;
};

/// Stands in the graph for all replicas: its inputs are those of the model that need a gradient, and the
/// parameters; its outputs the gathered ones. libtorch runs the backward of what lies on CPUs in the one
/// thread that called backward(), so the replicas' own graphs do not continue here.
class RunReplicas : public torch::autograd::Function<RunReplicas> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* context, at::TensorList /*inputs*/,
                               at::TensorList /*parameters*/, const c10::intrusive_ptr<KnownPass>& known,
                               const variable_list& outputs) {
    context->saved_data["known"] = c10::IValue::make_capsule(known);
    context->set_materialize_grads(false);
    variable_list without;
    const auto with = known->pass->requires_gradients();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!with[known->outputs[i]]) without.push_back(outputs[i]);
    }
    context->mark_non_differentiable(without);
    return outputs;
  }

  static variable_list backward(torch::autograd::AutogradContext* context, variable_list gradients) {
    if (c10::GradMode::is_enabled()) {
      throw InvalidArgumentError(
          "DataParallel has no second derivative (create_graph): its backward runs in several threads", {});
    }
    const auto capsule = context->saved_data["known"].toCapsule();
    const auto& known = static_cast<KnownPass&>(*capsule);
    auto found = known.pass->backward(spread_out(gradients, known.outputs, known.all_outputs),
                                      torch::autograd::get_current_graph_task_keep_graph());
    variable_list result = chosen(found.inputs, known.inputs);
    std::ranges::move(found.parameters, std::back_inserter(result));
    result.resize(result.size() + 2);  // forward's other arguments
    return result;
  }
};

[[noreturn]] void refuse_model(const std::string& why) {
  throw InvalidArgumentError("DataParallel: " + why, {});
}

std::vector<Replica> make_replicas(const std::shared_ptr<torch::nn::Module>& model,
                                   const std::function<std::shared_ptr<torch::nn::Module>()>& make,
                                   int count) {
  std::vector<Replica> replicas;
  const ModuleParts parts(*model);
  for (int i = 0; i < count; ++i) {
    std::shared_ptr<torch::nn::Module> made;
    const std::string problem = problem_of([&] { made = make ? make() : model->clone(); });
    if (!problem.empty()) {
      refuse_model("a replica cannot be made: " + problem +
                   (make ? "" : " (or pass a function that makes a model of this kind)"));
    }
    if (!made || made == model) refuse_model("the function that makes replicas has to return a new model");
    for (const Replica& other : replicas) {
      if (other.module() == made) refuse_model("the function that makes replicas returned one model twice");
    }
    Replica& replica = replicas.emplace_back(std::move(made), *model);
    replica.require_alike(parts);
    replica.follow(parts, i == 0);  // already now, as it lets go of the clone's own memory
  }
  return replicas;
}

}  // namespace

struct DataParallelBase::State : Team {
  using Team::Team;
};

DataParallelBase::DataParallelBase(std::shared_ptr<torch::nn::Module> model, const MakeReplica& make,
                                   const DataParallelOptions& options) {
  if (!model) refuse_model("there is no model");
  if (options.replicas < 1) refuse_model(std::to_string(options.replicas) + " replicas");
  if (options.threads_per_replica < 0)
    refuse_model(std::to_string(options.threads_per_replica) + " threads per replica");
  int threads = options.threads_per_replica;
  if (threads == 0) threads = std::max(1, at::get_num_threads() / options.replicas);
  auto replicas = make_replicas(model, make, options.replicas);
  state_ = std::make_shared<State>(std::move(model), std::move(replicas), threads);
}

DataParallelBase::~DataParallelBase() = default;

int DataParallelBase::replicas() const noexcept {
  return static_cast<int>(state_->replicas.size());
}

std::vector<at::Tensor> DataParallelBase::parameters() const {
  std::vector<at::Tensor> result;
  for (at::Tensor& parameter : state_->model->parameters()) {
    const auto is_it = [&](const at::Tensor& other) { return other.is_same(parameter); };
    if (std::ranges::none_of(result, is_it)) result.push_back(std::move(parameter));
  }
  return result;
}

const std::shared_ptr<torch::nn::Module>& DataParallelBase::replica(std::size_t index) const {
  return state_->replicas[index].module();
}

std::vector<at::Tensor> DataParallelBase::run(const std::vector<at::Tensor>& inputs,
                                              const ForwardReplica& forward) {
  const auto known = c10::make_intrusive<KnownPass>();
  known->pass = std::make_shared<Pass>(state_, inputs);
  auto outputs = known->pass->forward(forward);
  const auto with = known->pass->requires_gradients();
  if (!c10::GradMode::is_enabled() || std::ranges::find(with, true) == with.end()) return outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].requires_grad()) known->inputs.push_back(i);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].defined()) known->outputs.push_back(i);
  }
  known->all_outputs = outputs.size();
  const auto needed = chosen(inputs, known->inputs), parameters = state_->model->parameters();
  const auto gathered = RunReplicas::apply(at::TensorList(needed), at::TensorList(parameters), known,
                                           chosen(outputs, known->outputs));
  return spread_out(gathered, known->outputs, outputs.size());
}

}  // namespace kolo::methods
