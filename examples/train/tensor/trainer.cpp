#include "tensor/trainer.hpp"

#include "kolo/train/libtorch.hpp"

#include <fmt/format.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "kolo/kolo.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "language_model/windows.hpp"
#include "support/corpus.hpp"
#include "support/on_all_ranks.hpp"
#include "support/progress_line.hpp"
#include "support/results.hpp"
#include "tensor/model.hpp"

namespace tensor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBalance = 0.01;  // W. Fedus et al.: "Switch Transformers", 2022, section 2.2

/// Elements of parameters: on this rank, and of the whole model.
struct Size {
  std::int64_t here = 0, whole = 0;
};

Size size_of(const kolo::PlacedModel& model) {
  Size size;
  for (const kolo::PlacedParameter& parameter : model.parameters()) size.here += parameter.tensor.numel();
  for (const kolo::PlacedModel::Whole& parameter : model.whole()) {
    std::int64_t elements = 1;
    for (const std::int64_t length : parameter.sizes) elements *= length;
    size.whole += elements;
  }
  return size;
}

class Training {
 public:
  Training(const Options& options, kolo::Communicator& communicator)
      : options_(options),
        communicator_(communicator),
        text_(
            support::on_all_ranks(communicator, [&] { return support::read_corpus(options.text).training; }),
            options.context),
        model_(options, communicator),
        line_(communicator.rank() == 0 ? options.progress : "none") {
    // Replicated parameters whose ranks see other places: their gradients are averaged.
    if (model_->divides_sequences_only()) {
      parallel_.emplace(model_, communicator);
    } else {
      placed_.emplace(kolo::placed_parameters(*model_), communicator);
    }
    optimizer_.emplace(model_->parameters(), torch::optim::AdamOptions(options.learning_rate));
  }

  nlohmann::json run() {
    std::vector<double> losses, seconds, sent;
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      communicator_.barrier();
      const std::uint64_t sent_before = communicator_.counters().bytes_sent;
      const auto begin = Clock::now();
      const at::Tensor loss = one_step(step);
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      sent.push_back(static_cast<double>(communicator_.counters().bytes_sent - sent_before));
      losses.push_back(mean_loss(loss));
      line_.show(fmt::format("step {:5}  loss {:.6f}", step + 1, losses.back()));
    }
    return results(losses, seconds, sent);
  }

 private:
  at::Tensor one_step(std::int64_t step) {
    const language_model::Windows windows =
        text_.draw(options_.seed, step, options_.batch, 0, options_.batch);
    const at::Tensor scores = parallel_ ? parallel_->forward(windows.inputs) : model_(windows.inputs);
    const at::Tensor loss = model_->loss(scores, windows.targets);
    const at::Tensor balance = model_->balance_loss();
    optimizer_->zero_grad();
    (balance.defined() ? loss + kBalance * balance : loss).backward();
    kolo::clip_gradients(placed(), options_.max_norm);
    optimizer_->step();
    return loss.detach();
  }

  const kolo::PlacedModel& placed() const { return parallel_ ? parallel_->placed() : *placed_; }

  /// The same on all ranks, where it is no number too.
  double mean_loss(const at::Tensor& loss) {
    double mean = loss.item().toDouble();
    if (parallel_)
      communicator_.all_reduce(kolo::Buffer(&mean, 1, kolo::DType::float64), kolo::ReduceOp::average);
    support::throw_on_all_ranks(communicator_, std::isfinite(mean) ? "" : "the loss is no finite number");
    return mean;
  }

  nlohmann::json results(const std::vector<double>& losses, const std::vector<double>& seconds,
                         std::vector<double> sent) {
    const auto [mean, median] = support::step_times(seconds);
    const Size size = size_of(placed());
    // The last step's: in the first ones ranks agree on more than gradients.
    std::array<double, 2> most{sent.back(), static_cast<double>(size.here)};
    communicator_.all_reduce(kolo::Buffer(most), kolo::ReduceOp::max);
    if (communicator_.rank() == 0) {
      line_.note(fmt::format("{} ranks, {}: loss {:.6f} to {:.6f}, {:.1f} ms a step (median {:.1f})",
                             communicator_.size(), options_.mode, losses.front(), losses.back(), 1e3 * mean,
                             1e3 * median));
      line_.note(fmt::format("a rank has {} of {} parameters at most, and sends {:.0f} bytes a step", most[1],
                             size.whole, most[0]));
    }
    return {{"mode", options_.mode},         {"ranks", communicator_.size()},
            {"steps", options_.steps},       {"batch", options_.batch},
            {"context", options_.context},   {"width", options_.width},
            {"layers", options_.layers},     {"loss", losses},
            {"mean_step_s", mean},           {"median_step_s", median},
            {"parameters", size.whole},      {"parameters_of_a_rank", most[1]},
            {"sent_bytes_per_step", most[0]}};
  }

  const Options& options_;
  kolo::Communicator& communicator_;
  language_model::Text text_;
  Model model_;
  std::optional<kolo::PlacedModel> placed_;
  std::optional<kolo::DistributedDataParallel<ModelImpl>> parallel_;
  std::optional<torch::optim::Adam> optimizer_;
  support::ProgressLine line_;
};

}  // namespace

nlohmann::json train(const Options& options, kolo::Communicator& communicator) {
  torch::manual_seed(options.seed);
  return Training(options, communicator).run();
}

}  // namespace tensor
