#include "train/composition/wrappers.hpp"

#include <torch/optim/sgd.h>

#include <optional>
#include <utility>

#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/grid.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/local.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/precision.hpp"
#include "kolo/train/recompute.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "train/hybrid/layers.hpp"
#include "train/sharded/tower.hpp"
#include "train/support/models.hpp"

namespace kolo::test::composition {
namespace {

using torch::nn::Sequential;
constexpr int kSteps = 4;
constexpr std::int64_t kBatch = 8, kBorder = 3;

/// A layer with a parameter that it does not use.
struct SpareImpl : torch::nn::Module {
  SpareImpl() { register_module("layer", layer); }
  at::Tensor forward(const at::Tensor& x) { return x; }
  torch::nn::Linear layer{2, 2};
};
TORCH_MODULE(Spare);

/// A layer that backward computes anew.
struct AnewImpl : torch::nn::Module {
  explicit AnewImpl(torch::nn::Linear inner) : layer(std::move(inner)) { register_module("layer", layer); }
  at::Tensor forward(const at::Tensor& x) { return recompute(layer, x); }
  torch::nn::Linear layer;
};
TORCH_MODULE(Anew);

/// Layers `begin` to `end` by their numbers in the whole model. Layers 3 and 4 are what the features change.
Sequential net(std::int64_t begin, std::int64_t end, const Communicator& tensor, const Features& features) {
  Sequential result;
  at::Tensor tied;
  const auto layer = [&](std::int64_t number) {
    if (number == 4 && features.contains("tied")) return torch::nn::AnyModule(sharded::Tied(tied));
    if (number == 4 && features.contains("unused")) return torch::nn::AnyModule(Spare());
    if (number != 3) return hybrid::layer(number, tensor);
    const torch::nn::Linear linear(hybrid::kWidth, hybrid::kWidth);
    tied = linear->weight;
    return features.contains("recompute") ? torch::nn::AnyModule(Anew(linear)) : torch::nn::AnyModule(linear);
  };
  for (std::int64_t number = begin; number < end; ++number)
    result->push_back(std::to_string(number), layer(number));
  const bool is_float = features.contains("amp") || features.contains("wire") || features.contains("hook") ||
                        features.contains("gather_type");
  result->to(device(), is_float ? at::kFloat : at::kDouble);
  if (features.contains("frozen")) {
    for (const auto& parameter : result->named_parameters()) {
      const bool is_frozen = parameter.key() == "0.weight" || parameter.key().starts_with("3.");
      if (is_frozen) parameter.value().set_requires_grad(false);
    }
  }
  return result;
}

std::vector<at::Tensor> trained(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.requires_grad()) result.push_back(parameter);
  }
  return result;
}

at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target) {
  return squares(output.to(target.scalar_type()), target);
}

template <typename Forward>
void run_backward(Forward&& forward, const Features& features, const at::Tensor& input,
                  const at::Tensor& target) {
  at::Tensor loss;
  {
    std::optional<Autocast> autocast;
    if (features.contains("amp") || features.contains("gather_type")) autocast.emplace();
    loss = loss_of(forward(input), target);
  }
  if (features.contains("loss_scale")) loss = loss * kLossScale;
  loss.backward();
}

Trainer with_layers(Sequential model, const Features& features, const Communicator& tensor) {
  return {.parameters = trained(sharded::unique_parameters(*model)),
          .backward =
              [model, features](const at::Tensor& input, const at::Tensor& target) mutable {
                run_backward([&](const at::Tensor& x) { return model->forward(x); }, features, input, target);
              },
          .placed = PlacedModel(placed_parameters(*model), tensor)};
}

DistributedDataParallelOptions options_of(const Features& features, bool overlaps) {
  auto options = small_buckets();
  options.find_unused_parameters = features.contains("unused");
  if (features.contains("hook")) options.hook = make_gradient_hook("bfloat16");
  if (features.contains("wire")) options.wire = Wire::bfloat16;
  if (overlaps) {
    options.overlap_forward = [](const std::vector<at::Tensor>& parameters) {
      return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
    };
  }
  return options;
}

Trainer in_ddp(Grid& grid, const Features& features, const Whole& initial, bool overlaps) {
  Sequential model = net(0, hybrid::kLayers, grid.tensor(), features);
  load_whole_parameters(placed_parameters(*model), initial);
  auto options = options_of(features, overlaps);
  options.holders = grid.replica();
  auto parallel =
      std::make_shared<DistributedDataParallel<torch::nn::SequentialImpl>>(model, grid.data(), options);
  Trainer trainer = with_layers(model, features, grid.tensor());
  trainer.model = parallel;
  trainer.backward = [parallel, features](const at::Tensor& input, const at::Tensor& target) {
    run_backward(*parallel, features, input, target);
  };
  trainer.placed = parallel->placed();
  if (overlaps && features.contains("clip")) clip_gradients(trainer.placed, kMaxNorm);
  trainer.makes_steps = overlaps;
  if (!overlaps) return trainer;
  trainer.add_to = [parallel](Checkpoint& checkpoint, torch::optim::Optimizer&) {
    int number = 0;
    for (torch::optim::Optimizer* optimizer : parallel->optimizers())
      checkpoint.add("optimizer of a bucket " + std::to_string(number++), *optimizer);
  };
  return trainer;
}

Trainer in_shards(Grid& grid, const Features& features, const Whole& initial, Shard shard) {
  Sequential model = net(0, hybrid::kLayers, grid.tensor(), features);
  load_whole_parameters(placed_parameters(*model), initial);
  ShardedDataParallelOptions options{.shard = shard, .holders = grid.replica(), .data = grid.data()};
  if (features.contains("gather_type")) options.gather_type = at::kBFloat16;
  if (features.contains("hook")) options.hook = make_gradient_hook("bfloat16");
  if (features.contains("top_k")) options.hook = make_gradient_hook("top_k");
  auto parallel =
      std::make_shared<ShardedDataParallel<torch::nn::SequentialImpl>>(model, grid.sharded(), options);
  return {.parameters = parallel->parameters(),
          .backward = [parallel, features](
                          const at::Tensor& input,
                          const at::Tensor& target) { run_backward(*parallel, features, input, target); },
          .placed = parallel->placed(),
          .model = parallel};
}

Trainer in_pipeline(Grid& grid, const Features& features, const Whole& initial) {
  const bool is_last = grid.pipeline().rank() == 1;
  Sequential model = net(is_last ? kBorder : 0, is_last ? hybrid::kLayers : kBorder, grid.tensor(), features);
  load_whole_parameters(placed_parameters(*model), initial);
  PipelineStage stage(model.ptr());
  std::vector<at::Tensor> parameters = trained(sharded::unique_parameters(*model));
  if (grid.sharded().size() > 1) {
    auto shards = std::make_shared<ShardedDataParallel<torch::nn::SequentialImpl>>(model, grid.sharded());
    stage.forward = [shards](const at::Tensor& x) -> at::Tensor { return (*shards)(x); };
    parameters = shards->parameters();
  }
  PipelineParallelOptions options{.micro_batches = 2, .data = grid.data(), .holders = grid.replica()};
  if (features.contains("tie")) options.tie = {{"0.bias", "3.bias"}};
  const double scale = features.contains("loss_scale") ? kLossScale : 1;
  const auto loss = [scale](const at::Tensor& output, const at::Tensor& target) {
    return loss_of(output, target) * scale;
  };
  auto pipeline =
      std::make_shared<PipelineParallel>(std::vector<PipelineStage>{stage}, loss, grid.pipeline(), options);
  return {.parameters = parameters,
          .backward =
              [pipeline, features](const at::Tensor& input, const at::Tensor& target) {
                std::optional<Autocast> autocast;
                if (features.contains("amp")) autocast.emplace();
                pipeline->step(input, target);
              },
          .placed = pipeline->placed(),
          .model = pipeline};
}

Trainer with_delayed_averages(Grid& grid, const Features& features, const Whole& initial) {
  Sequential model = net(0, hybrid::kLayers, grid.tensor(), features);
  load_whole_parameters(placed_parameters(*model), initial);
  auto averages = std::make_shared<DelayedAverages>(*model, grid.data());
  Trainer trainer = with_layers(model, features, grid.tensor());
  trainer.before_step = [averages] { return averages->step(); };
  trainer.finish = [averages] { return averages->finish(); };
  return trainer;
}

/// With one step between averages, momentum SGD makes the steps of one process: its update is linear in the
/// gradients.
Trainer with_model_averager(Grid& grid, const Features& features, const Whole& initial) {
  Sequential model = net(0, hybrid::kLayers, grid.tensor(), features);
  load_whole_parameters(placed_parameters(*model), initial);
  auto averager = std::make_shared<ModelAverager>(*model, grid.data(), ModelAveragerOptions{.period = 1});
  Trainer trainer = with_layers(model, features, grid.tensor());
  trainer.after_step = [averager] { averager->step(); };
  trainer.add_to = [averager](Checkpoint& checkpoint, torch::optim::Optimizer& optimizer) {
    checkpoint.add("averager", *averager).add_own("optimizer", optimizer);
  };
  if (features.contains("clip"))
    trainer.parts = 1;  // each rank clips what it has: with equal batches as one process
  return trainer;
}

template <typename Make>
Wrapper wrapper(const GridOptions& shape, const Make& make, bool is_late = false) {
  const auto in_grid = [shape, make](Communicator& communicator, const Features& features,
                                     const Whole& initial) {
    auto grid = std::make_shared<Grid>(communicator, shape);
    Trainer trainer = make(*grid, features, initial);
    if (trainer.parts == 0) {
      trainer.part = grid->batch_part();
      trainer.parts = shape.data * shape.sharded;
    }
    if (trainer.model && features.contains("loss_scale")) trainer.model->set_loss_scale(kLossScale);
    if (trainer.model && features.contains("no_sync")) {
      const auto local = trainer.model->no_sync();  // throws where there is none
    }
    trainer.after_step = [grid, after = trainer.after_step] { after(); };  // keeps it
    return trainer;
  };
  return {shape.data * shape.sharded * shape.pipeline * shape.tensor, in_grid, is_late};
}

}  // namespace

const std::map<std::string, Wrapper>& wrappers() {
  using namespace std::placeholders;
  const auto shards = [](Shard shard) { return std::bind(in_shards, _1, _2, _3, shard); };
  static const std::map<std::string, Wrapper> all = {
      {"ddp", wrapper({.data = 2}, std::bind(in_ddp, _1, _2, _3, false))},
      {"ddp, overlap_forward", wrapper({.data = 2}, std::bind(in_ddp, _1, _2, _3, true))},
      {"shards: state", wrapper({.sharded = 2}, shards(Shard::optimizer_state))},
      {"shards: gradients", wrapper({.sharded = 2}, shards(Shard::gradients))},
      {"shards: parameters", wrapper({.sharded = 2}, shards(Shard::parameters))},
      {"shards x data", wrapper({.data = 2, .sharded = 2}, shards(Shard::parameters))},
      {"pipeline", wrapper({.data = 2, .pipeline = 2}, in_pipeline)},
      {"pipeline of shards", wrapper({.sharded = 2, .pipeline = 2}, in_pipeline)},
      {"tensor in ddp", wrapper({.data = 2, .tensor = 2}, std::bind(in_ddp, _1, _2, _3, false))},
      {"DelayedAverages", wrapper({.data = 2}, with_delayed_averages, true)},
      {"ModelAverager", wrapper({.data = 2}, with_model_averager)},
  };
  return all;
}

Trainer alone(Communicator& group_of_one, const Features& features, bool is_late) {
  Sequential model = net(0, hybrid::kLayers, group_of_one, features);
  fill(*model, 1);
  Trainer trainer = with_layers(model, features, group_of_one);
  trainer.parts = 1;
  if (is_late) {
    const auto earlier = std::make_shared<std::vector<at::Tensor>>();
    trainer.before_step = [earlier, parameters = trainer.parameters] {
      const bool has_step = !earlier->empty();
      earlier->resize(parameters.size());
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const at::Tensor gradient = parameters[i].grad();
        parameters[i].mutable_grad() = (*earlier)[i];
        (*earlier)[i] = gradient.defined() ? gradient.clone() : gradient;
      }
      return has_step;
    };
    trainer.finish = trainer.before_step;
  }
  return trainer;
}

Whole initial_values(Communicator& group_of_one, const Features& features) {
  return gather_whole_parameters(alone(group_of_one, features, false).placed);
}

Whole train(const std::function<Trainer()>& make, const Features& features, Communicator& communicator,
            const std::string& folder) {
  std::optional<Trainer> trainer;
  std::optional<torch::optim::SGD> optimizer;
  const auto begin = [&] {
    trainer = make();
    optimizer.emplace(trainer->parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
  };
  const auto step = [&] {
    if (trainer->makes_steps) return;
    for (const at::Tensor& parameter : trainer->parameters) {
      if (features.contains("loss_scale") && parameter.grad().defined())
        parameter.mutable_grad().div_(kLossScale);
    }
    if (features.contains("clip")) clip_gradients(trainer->placed, kMaxNorm);
    optimizer->step();
  };
  const auto go_on_from_checkpoint = [&] {
    if (trainer->finish()) step();
    for (const bool loads : {false, true}) {
      if (loads) begin();
      Checkpoint checkpoint;
      checkpoint.add("model", trainer->placed);
      trainer->add_to(checkpoint, *optimizer);
      if (loads) {
        checkpoint.load(folder, communicator);
      } else {
        checkpoint.save(folder, 1, communicator);
        checkpoint.wait();
      }
    }
  };
  begin();
  const at::ScalarType type = trainer->parameters[0].scalar_type();
  const std::int64_t rows = kBatch / trainer->parts;
  for (int number = 0; number < kSteps; ++number) {
    if (number == kSteps / 2 && features.contains("checkpoint")) go_on_from_checkpoint();
    const auto part = [&](std::int64_t columns, double seed) {
      return numbers(kBatch, columns, seed).to(device(), type).narrow(0, rows * trainer->part, rows);
    };
    optimizer->zero_grad();
    const at::Tensor input = part(hybrid::kInputs, 31 * number),
                     target = part(hybrid::kOutputs, 17 * number + 5);
    if (features.contains("no_sync")) {
      std::optional<ParallelModel::NoSync> local;
      if (trainer->model) local.emplace(*trainer->model);
      trainer->backward(input, target);
    }
    trainer->backward(input, target);
    if (trainer->before_step()) step();
    trainer->after_step();
  }
  if (trainer->finish()) step();
  return gather_whole_parameters(trainer->placed);
}

}  // namespace kolo::test::composition
