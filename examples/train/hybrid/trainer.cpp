#include "hybrid/trainer.hpp"

#include "kolo/train/libtorch.hpp"

#include <fmt/format.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "hybrid/part.hpp"
#include "kolo/kolo.hpp"
#include "language_model/windows.hpp"
#include "support/corpus.hpp"
#include "support/on_all_ranks.hpp"
#include "support/progress_line.hpp"
#include "support/results.hpp"

namespace hybrid {
namespace {

using Clock = std::chrono::steady_clock;

void require_batch(const Options& options) {
  const std::int64_t parts = std::int64_t{options.grid.data} * options.grid.sharded;
  const std::int64_t cuts = parts * (options.grid.pipeline > 1 ? options.micro_batches : 1);
  if (options.model.batch % cuts == 0) return;
  throw std::invalid_argument(fmt::format("--batch {} cannot be cut into {} equal parts: {} replicas{}",
                                          options.model.batch, cuts, parts,
                                          cuts == parts ? "" : ", each with its micro-batches"));
}

std::int64_t elements_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return elements;
}

}  // namespace

nlohmann::json train(const Options& options, kolo::Communicator& communicator) {
  const tensor::Options& model = options.model;
  kolo::Grid grid(communicator, options.grid);
  require_batch(options);
  const language_model::Text text(
      support::on_all_ranks(communicator, [&] { return support::read_corpus(model.text).training; }),
      model.context);
  torch::manual_seed(model.seed);
  Part part(options, grid);
  torch::optim::Adam optimizer(part.parameters(), torch::optim::AdamOptions(model.learning_rate));
  support::ProgressLine line(communicator.rank() == 0 ? model.progress : "none");

  const std::int64_t rows = model.batch / (std::int64_t{options.grid.data} * options.grid.sharded);
  const std::int64_t first = rows * grid.batch_part();
  std::vector<double> losses, seconds, sent;
  for (std::int64_t step = 0; step < model.steps; ++step) {
    const auto windows = text.draw(model.seed, step, model.batch, first, first + rows);
    communicator.barrier();
    const std::uint64_t sent_before = communicator.counters().bytes_sent;
    const auto begin = Clock::now();
    optimizer.zero_grad();
    losses.push_back(part.backward(windows.inputs, windows.targets));
    support::throw_on_all_ranks(communicator,
                                std::isfinite(losses.back()) ? "" : "the loss is no finite number");
    part.clip_gradients(model.max_norm);
    optimizer.step();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    sent.push_back(static_cast<double>(communicator.counters().bytes_sent - sent_before));
    line.show(fmt::format("step {:5}  loss {:.6f}", step + 1, losses.back()));
  }

  const auto [mean, median] = support::step_times(seconds);
  // The last step's: in the first ones ranks agree on more than gradients.
  std::array<double, 2> most{sent.back(), static_cast<double>(elements_of(part.parameters()))};
  communicator.all_reduce(kolo::Buffer(most), kolo::ReduceOp::max);
  if (communicator.rank() == 0) {
    line.note(
        fmt::format("{} ranks, data {} x sharded {} x pipeline {} x tensor {}: loss {:.6f} to {:.6f}, "
                    "{:.1f} ms a step (median {:.1f})",
                    communicator.size(), options.grid.data, options.grid.sharded, options.grid.pipeline,
                    options.grid.tensor, losses.front(), losses.back(), 1e3 * mean, 1e3 * median));
    line.note(fmt::format("a rank trains {:.0f} parameters at most, and sends {:.0f} bytes a step", most[1],
                          most[0]));
  }
  return {{"ranks", communicator.size()},
          {"data", options.grid.data},
          {"sharded", options.grid.sharded},
          {"pipeline", options.grid.pipeline},
          {"tensor", options.grid.tensor},
          {"steps", model.steps},
          {"loss", losses},
          {"mean_step_s", mean},
          {"median_step_s", median},
          {"parameters_of_a_rank", most[1]},
          {"sent_bytes_per_step", most[0]}};
}

}  // namespace hybrid
