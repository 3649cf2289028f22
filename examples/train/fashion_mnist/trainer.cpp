#include "fashion_mnist/trainer.hpp"

#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <optional>
#include <stdexcept>

#include "fashion_mnist/data.hpp"
#include "fashion_mnist/feed.hpp"
#include "fashion_mnist/model.hpp"
#include "fashion_mnist/plan.hpp"
#include "fashion_mnist/synchronization.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/figures.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/parallel_model.hpp"
#include "kolo/train/precision.hpp"
#include "methods/one_bit_adam.hpp"
#include "support/interrupt.hpp"
#include "support/on_all_ranks.hpp"
#include "support/progress_line.hpp"
#include "support/results.hpp"

namespace fashion_mnist {
namespace {

using Clock = std::chrono::steady_clock;
using support::seconds;
namespace functional = torch::nn::functional;

/// Steps between two looks at the other ranks' loss and at interrupts.
constexpr std::int64_t kStepsPerReport = 10;
constexpr std::int64_t kFirstTimelineStep = 20;
constexpr std::int64_t kEvaluationBatch = 500;

/// Fully connected layers, most of the bytes, are ready first: they travel while the convolutions compute.
kolo::DistributedDataParallelOptions parallel_options(const Options& options, std::uint64_t averaged_steps) {
  kolo::DistributedDataParallelOptions parallel;
  parallel.first_bucket_bytes = 128u << 10;
  if (!options.hook.empty()) parallel.hook = kolo::make_gradient_hook(options.hook);
  kolo::Wire wire{};
  if (kolo::parse_wire(options.wire, wire)) parallel.wire = wire;
  set_synchronization(options, averaged_steps, parallel);
  return parallel;
}

/// What a rank trains on, and what accuracy is measured on.
struct Images {
  std::unique_ptr<Feed> feed;
  Dataset test;
};

/// Collective. The training images are read where they are needed, once.
Images prepare_images(const Options& options, kolo::Communicator& communicator) {
  std::optional<Dataset> read;
  const auto split = [&] {
    if (!read) read = load(options.data, true, options.limit);
    return std::max<std::int64_t>(read->size() - options.held_out, 0);
  };
  Images images;
  images.feed = make_feed(options, communicator, [&] {
    const std::int64_t end = split();
    return read->slice(0, end);
  });
  if (options.held_out == 0) {
    images.test = load(options.data, false);
  } else {
    const std::int64_t begin = split();
    images.test = read->slice(begin, read->size());
  }
  return images;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Options& options,
                                                        kolo::DistributedDataParallelBase& model) {
  const auto adam = torch::optim::AdamOptions(options.learning_rate).weight_decay(options.weight_decay);
  if (options.optimizer == "adam") return std::make_unique<torch::optim::Adam>(model.parameters(), adam);
  if (options.optimizer == "one_bit_adam") {
    return std::make_unique<kolo::methods::OneBitAdam>(
        model, adam, kolo::methods::OneBitAdamOptions{.freeze_after_steps = options.freeze_after_steps});
  }
  if (options.optimizer == "lars") {
    return std::make_unique<kolo::LARS>(model.parameters(),
                                        kolo::LARSOptions(options.learning_rate)
                                            .momentum(options.momentum)
                                            .weight_decay(options.weight_decay)
                                            .trust_coefficient(options.trust_coefficient));
  }
  if (options.optimizer == "lamb") {
    return std::make_unique<kolo::LAMB>(
        model.parameters(), kolo::LAMBOptions(options.learning_rate).weight_decay(options.weight_decay));
  }
  return std::make_unique<torch::optim::SGD>(model.parameters(),
                                             torch::optim::SGDOptions(options.learning_rate)
                                                 .momentum(options.momentum)
                                                 .nesterov(options.momentum > 0)
                                                 .weight_decay(options.weight_decay));
}

class Training {
 public:
  Training(const Options& options, kolo::Communicator& communicator, std::shared_ptr<kolo::Timeline> timeline)
      : options_(options),
        communicator_(communicator),
        timeline_(std::move(timeline)),
        images_(prepare_images(options, communicator)),
        plan_(make_plan(options, communicator.size(),
                        [&](std::int64_t batch) {
                          images_.feed->set_batch(batch / communicator.size());
                          return images_.feed->steps_per_epoch();
                        })),
        model_(Net(), communicator, parallel_options(options, averaged_steps())),
        optimizer_(make_optimizer(options, model_)),
        synchronization_(options, averaged_steps(), model_, model_.model(), communicator),
        line_(communicator.rank() == 0 ? options.progress : "none") {
    model_.check(*optimizer_);
    if (options.loss_scale > 0)
      scaler_.emplace(model_, kolo::LossScalerOptions{.initial_scale = options.loss_scale});
    if (!options.figures.empty()) {
      support::on_all_ranks(communicator, [&] {
        if (communicator.rank() == 0) figures_.emplace(options.figures);
        return true;
      });
    }
    for (const Epoch& epoch : plan_.epochs) steps_ += epoch.steps;
    if (options.steps > 0) steps_ = std::min(steps_, options.steps);
    history_.ranks = communicator.size();
    for (const at::Tensor& parameter : model_.parameters()) history_.parameters += parameter.numel();
  }

  History run() {
    const auto begin = Clock::now();
    for (epoch_ = 0; history_.steps < steps_ && history_.signal == 0; ++epoch_) {
      train_epoch(plan_.epochs[epoch_]);
      if (history_.signal == 0 && evaluated_at_ != history_.steps) evaluate();
    }
    timeline_->pause(true);
    history_.total_seconds = seconds(Clock::now() - begin);
    history_.communication.ranks = history_.ranks;
    history_.communication.steps = history_.steps;
    history_.communication.statistics = synchronization_.total();
    average_costs();
    return history_;
  }

 private:
  /// Of post-local: those whose gradients are averaged.
  std::uint64_t averaged_steps() const {
    return static_cast<std::uint64_t>(
        std::llround(options_.averaged_epochs * static_cast<double>(plan_.epochs[0].whole)));
  }

  void train_epoch(const Epoch& epoch) {
    images_.feed->set_batch(epoch.batch / communicator_.size());
    images_.feed->begin_epoch(static_cast<int>(epoch_));
    model_->train();
    auto report_begin = Clock::now();
    auto exposed_before = synchronization_.total().exposed;
    double loss_sum = 0;
    std::int64_t loss_steps = 0;
    for (step_of_epoch_ = 0; step_of_epoch_ < epoch.steps && history_.steps < steps_;) {
      choose_timeline_window();
      loss_sum += step();
      ++step_of_epoch_;
      ++loss_steps;
      history_.images += epoch.batch;
      const bool is_to_evaluate =
          options_.evaluate_every > 0 && history_.steps % options_.evaluate_every == 0;
      const bool last = step_of_epoch_ == epoch.steps || history_.steps == steps_ || is_to_evaluate;
      if (loss_steps < kStepsPerReport && !last) continue;
      const double loss = agree(loss_sum / static_cast<double>(loss_steps));
      const double elapsed = seconds(Clock::now() - report_begin);
      history_.training_seconds += elapsed;
      history_.losses.push_back({epochs_done(), loss, history_.training_seconds});
      history_.rates.push_back({epochs_done(), rate_, history_.training_seconds});
      const double waiting = seconds(synchronization_.total().exposed - exposed_before) / elapsed;
      line_.show(fmt::format("epoch {}/{}  step {:4}/{}  loss {:.4f}  {:6.0f} images/s  waiting {:4.1f} %",
                             epoch_ + 1, plan_.epochs.size(), history_.steps, steps_, loss,
                             static_cast<double>(loss_steps * epoch.batch) / elapsed, 100 * waiting));
      if (figures_) {
        figures_->write(number_of_steps(), {{"train/loss", loss},
                                            {"train/learning rate", rate_},
                                            {"time/step", elapsed / static_cast<double>(loss_steps)},
                                            {"time/waiting", waiting}});
      }
      if (history_.signal != 0) return;
      if (is_to_evaluate) {
        evaluate();
        model_->train();
      }
      report_begin = Clock::now();
      exposed_before = synchronization_.total().exposed;
      loss_sum = 0;
      loss_steps = 0;
    }
  }

  /// One step of gradient descent; returns the loss of this rank's share of the batch.
  double step() {
    const std::uint64_t number = number_of_steps();
    rate_ = plan_.rate(number);
    kolo::set_learning_rate(*optimizer_, rate_);
    if (plan_.momentum) kolo::set_momentum(*optimizer_, (*plan_.momentum)(number));
    const auto begin = Clock::now();
    const kolo::Batch batch = images_.feed->next();
    const auto fed = Clock::now();
    if (history_.steps == 0) history_.data_ready_seconds = seconds(fed - made_);
    optimizer_->zero_grad();
    if (!synchronization_.sends_between_steps()) sent_before_ = communicator_.counters().bytes_sent;
    const double scale = scaler_ ? scaler_->scale() : 1;
    std::optional<Clock::time_point> backward;  // of the part that was computed last
    const auto end_part = [&](Clock::time_point now) {
      if (backward) timeline_->span("backward", "compute", *backward, now);
    };
    timeline_->span("data", "compute", begin, Clock::now());
    const at::Tensor loss =
        kolo::accumulate(model_, batch, options_.accumulate, [&](const kolo::Batch& part) {
          const auto forward = Clock::now();
          end_part(forward);
          const at::Tensor of_part = loss_of(part);
          backward = Clock::now();
          timeline_->span("forward", "compute", forward, *backward);
          return scaler_ ? scaler_->scale(of_part) : of_part;
        });
    const auto update = Clock::now();
    end_part(update);
    const bool is_last = history_.steps + 1 == steps_;
    synchronization_.step([this] { optimizer_step(); }, is_last);
    const std::uint64_t sent_after = communicator_.counters().bytes_sent;
    const auto end = Clock::now();
    timeline_->span("optimizer", "compute", update, end);
    if (history_.steps++ > 0) {
      gradient_bytes_ += static_cast<double>(model_.last_step().bytes);
      sent_bytes_ += static_cast<double>(sent_after - sent_before_);
      data_wait_ += seconds(fed - begin);
    }
    sent_before_ = sent_after;
    return loss.item().toDouble() / scale;
  }

  void optimizer_step() {
    if (scaler_) {
      scaler_->step(*optimizer_);
    } else if (options_.hook.empty() || model_.averages_are_finite()) {  // the same on all ranks
      optimizer_->step();
    }
  }

  at::Tensor loss_of(const kolo::Batch& part) {
    const kolo::Autocast autocast(options_.in_bfloat16);
    return functional::cross_entropy(model_(part[0]).to(at::kFloat), part[1]);
  }

  /// The mean loss of all ranks; notes an interrupt of any of them.
  double agree(double loss) {
    const int signal = support::interrupt_signal();
    std::array<double, 3> values{loss, signal == SIGINT ? 1.0 : 0.0, signal == SIGTERM ? 1.0 : 0.0};
    communicator_.all_reduce(kolo::Buffer(values));
    if (values[2] > 0) history_.signal = SIGTERM;
    if (values[1] > 0) history_.signal = SIGINT;
    return values[0] / communicator_.size();
  }

  /// Each rank looks at its part of the test images.
  void evaluate() {
    const c10::NoGradGuard no_grad;
    const auto averaged = synchronization_.averaged();
    model_->eval();
    const std::int64_t begin = images_.test.size() * communicator_.rank() / communicator_.size();
    const std::int64_t end = images_.test.size() * (communicator_.rank() + 1) / communicator_.size();
    std::array<std::int64_t, 1> correct{};
    for (std::int64_t i = begin; i < end; i += kEvaluationBatch) {
      const std::int64_t next = std::min(i + kEvaluationBatch, end);
      const at::Tensor guesses = model_.model().forward(images_.test.images.slice(0, i, next)).argmax(1);
      correct[0] += guesses.eq(images_.test.labels.slice(0, i, next)).sum().item().toLong();
    }
    communicator_.all_reduce(kolo::Buffer(correct));
    const double accuracy =
        100.0 * static_cast<double>(correct[0]) / static_cast<double>(images_.test.size());
    history_.accuracies.push_back({epochs_done(), accuracy, history_.training_seconds});
    evaluated_at_ = history_.steps;
    if (figures_) figures_->write(number_of_steps(), {{"test/accuracy", accuracy}});
    if (communicator_.rank() == 0) {
      line_.note(fmt::format("epoch {:.4g}: {} accuracy {:.2f} %", epochs_done(),
                             options_.held_out > 0 ? "held-out" : "test", accuracy));
    }
  }

  void average_costs() {
    const double steps = static_cast<double>(std::max<std::int64_t>(history_.steps - 1, 1));
    const kolo::Metrics mean = kolo::average({{"gradients", gradient_bytes_ / steps},
                                              {"sent", sent_bytes_ / steps},
                                              {"data wait", data_wait_ / steps},
                                              {"data ready", history_.data_ready_seconds},
                                              {"peak", support::peak_bytes()}},
                                             communicator_);
    history_.communication.gradient_bytes_per_step = mean.at("gradients");
    history_.communication.sent_bytes_per_step = mean.at("sent");
    history_.data_wait_per_step = mean.at("data wait");
    history_.data_ready_seconds = mean.at("data ready");
    history_.peak_bytes = mean.at("peak");
  }

  /// A few dozen steps tell all; a whole run would make a file that no viewer likes.
  void choose_timeline_window() {
    const std::int64_t first = std::min(kFirstTimelineStep, steps_ / 2);
    if (history_.steps == first) timeline_->pause(false);
    if (history_.steps == first + options_.timeline_steps) timeline_->pause(true);
  }

  std::uint64_t number_of_steps() const { return static_cast<std::uint64_t>(history_.steps); }

  double epochs_done() const {
    return static_cast<double>(epoch_) +
           static_cast<double>(step_of_epoch_) / static_cast<double>(plan_.epochs[epoch_].whole);
  }

  const Options& options_;
  kolo::Communicator& communicator_;
  std::shared_ptr<kolo::Timeline> timeline_;
  Clock::time_point made_ = Clock::now();
  Images images_;
  Plan plan_;
  kolo::DistributedDataParallel<NetImpl> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;  ///< after the model, which it may use
  std::optional<kolo::LossScaler> scaler_;
  Synchronization synchronization_;
  support::ProgressLine line_;
  std::optional<kolo::FigureWriter> figures_;
  std::size_t epoch_ = 0;
  std::int64_t step_of_epoch_ = 0;
  double rate_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t evaluated_at_ = -1;  ///< step
  double gradient_bytes_ = 0;
  double sent_bytes_ = 0;
  std::uint64_t sent_before_ = 0;
  double data_wait_ = 0;
  History history_;
};

}  // namespace

History train(const Options& options, kolo::Communicator& communicator,
              std::shared_ptr<kolo::Timeline> timeline) {
  // Ranks share the cores: threads of their own would only get in each other's way.
  at::set_num_threads(1);
  torch::manual_seed(options.seed);
  return Training(options, communicator, std::move(timeline)).run();
}

}  // namespace fashion_mnist
