#include "language_model/trainer.hpp"

#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>
#include <torch/serialize/archive.h>
#include <torch/utils.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <stdexcept>

#include "kolo/kolo.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/precision.hpp"
#include "kolo/train/training_schedule.hpp"
#include "language_model/evaluate.hpp"
#include "language_model/parallel_model.hpp"
#include "language_model/windows.hpp"
#include "support/corpus.hpp"
#include "support/gzip_file.hpp"
#include "support/interrupt.hpp"
#include "support/on_all_ranks.hpp"
#include "support/progress_line.hpp"
#include "support/results.hpp"

namespace language_model {
namespace {

using Clock = std::chrono::steady_clock;
using support::seconds;

constexpr std::int64_t kStepsPerReport = 10;
constexpr std::int64_t kFirstTimelineStep = 20;
/// While it trains, a part of the held-out text must do.
constexpr std::int64_t kEvaluations = 10;
constexpr std::int64_t kWindowsSkipped = 8;
/// Where the end is a moment, not a step, the schedule counts parts of the run.
constexpr std::uint64_t kParts = 10'000;

/// How long training has taken, for a checkpoint.
struct TrainedSeconds {
  double value = 0;
  void save(torch::serialize::OutputArchive& archive) const { archive.write("seconds", c10::IValue(value)); }
  void load(torch::serialize::InputArchive& archive) {
    c10::IValue read;
    archive.read("seconds", read);
    value = read.toDouble();
  }
};

/// Collective.
bool is_in_bfloat16(const Options& options, kolo::Communicator& communicator) {
  if (options.precision != "auto") return options.precision == "bfloat16";
  std::int64_t have = kolo::has_bfloat16_products() ? 1 : 0;
  communicator.all_reduce(kolo::Buffer(&have, 1, kolo::DType::int64), kolo::ReduceOp::min);
  return have == 1;
}

class Training {
 public:
  Training(const Options& options, kolo::Communicator& communicator, std::shared_ptr<kolo::Timeline> timeline)
      : options_(options),
        communicator_(communicator),
        timeline_(std::move(timeline)),
        corpus_(support::on_all_ranks(communicator, [&] { return support::read_corpus(options.text); })),
        training_(corpus_.training, options.shape.context),
        held_out_(corpus_.held_out, options.shape.context),
        in_bfloat16_(is_in_bfloat16(options, communicator)),
        model_(options, communicator),
        optimizer_(model_.groups()),
        rate_(
            kolo::TrainingSchedule::cosine(options.learning_rate, {.total = kParts, .warm_up = kParts / 50})),
        line_(communicator.rank() == 0 ? options.progress : "none") {
    model_.add_to(checkpoint_, optimizer_);
    checkpoint_.add("time", trained_);
    history_.ranks = communicator.size();
    history_.in_bfloat16 = in_bfloat16_;
    history_.training_bytes = static_cast<std::int64_t>(corpus_.training.size());
    history_.held_out_bytes = static_cast<std::int64_t>(corpus_.held_out.size());
    history_.bytes_per_step = options.batch * options.shape.context;
    history_.gzip_bits = support::gzip_bits_per_byte(corpus_.held_out);
    history_.parameters = model_.parameters();
  }

  History run() {
    const auto begin = Clock::now();
    resume();
    const double first_part = part();
    std::int64_t evaluations = static_cast<std::int64_t>(first_part * kEvaluations);
    while (part() < 1 && history_.signal == 0) {
      train_until(std::min(1.0, static_cast<double>(++evaluations) / kEvaluations));
      if (history_.signal == 0 && part() < 1) evaluate(kWindowsSkipped);
      save();
    }
    timeline_->pause(true);
    if (history_.signal == 0) evaluate(1);
    history_.total_seconds = seconds(Clock::now() - begin);
    history_.training_seconds = trained_.value;
    finish();
    return history_;
  }

 private:
  /// Of the whole training, what is done; the same on all ranks.
  double part() const {
    if (options_.steps > 0) return static_cast<double>(history_.steps) / static_cast<double>(options_.steps);
    return trained_.value / (60 * options_.minutes);
  }

  void train_until(double end) {
    model_.train(true);
    double sum = 0;
    std::int64_t steps = 0;
    double report_begin = trained_.value;
    auto exposed_before = model_.total().exposed;
    while (part() < end && history_.signal == 0) {
      sum += step();
      ++steps;
      if (steps < kStepsPerReport && part() < end && history_.signal == 0) continue;
      const double bits = sum / static_cast<double>(steps) / std::log(2.0);
      const double elapsed = trained_.value - report_begin;
      history_.losses.push_back({static_cast<double>(history_.steps), bits, trained_.value});
      show(bits, static_cast<double>(steps * history_.bytes_per_step) / elapsed,
           seconds(model_.total().exposed - exposed_before) / elapsed);
      sum = 0;
      steps = 0;
      report_begin = trained_.value;
      exposed_before = model_.total().exposed;
    }
  }

  /// One step of gradient descent. Returns the mean loss of all ranks, in nats.
  double step() {
    choose_timeline_window();
    const auto begin = Clock::now();
    kolo::set_learning_rate(optimizer_, rate_(static_cast<std::uint64_t>(part() * kParts)));
    optimizer_.zero_grad();
    const std::uint64_t sent_before = communicator_.counters().bytes_sent;
    const at::Tensor loss = loss_of_share();
    const auto backward = Clock::now();
    timeline_->span("forward", "compute", begin, backward);
    loss.backward();
    const std::uint64_t sent = communicator_.counters().bytes_sent - sent_before;
    const auto update = Clock::now();
    timeline_->span("backward", "compute", backward, update);
    const double mean = agree(loss.item().toDouble(), trained_.value + seconds(update - begin));
    const auto agreed = Clock::now();
    model_.clip_gradients(options_.max_norm);
    optimizer_.step();
    timeline_->span("optimizer", "compute", agreed, Clock::now());
    if (history_.steps++ > first_step_) sent_bytes_ += static_cast<double>(sent);
    unseen_ = seconds(Clock::now() - update);
    return mean;
  }

  at::Tensor loss_of_share() {
    const std::int64_t rank = communicator_.rank(), ranks = communicator_.size();
    const Windows share = training_.draw(options_.seed, history_.steps, options_.batch,
                                         options_.batch * rank / ranks, options_.batch * (rank + 1) / ranks);
    const kolo::Autocast autocast(in_bfloat16_);
    return torch::nn::functional::cross_entropy(model_(share.inputs).to(at::kFloat).view({-1, kBytes}),
                                                share.targets.flatten());
  }

  /// The mean loss of all ranks; notes rank 0's clock, which decides when training ends, and an interrupt of
  /// any rank. Throws before the optimizer has made weights of a loss that is no number.
  double agree(double loss, double clock) {
    const int signal = support::interrupt_signal();
    const bool is_rank_0 = communicator_.rank() == 0;
    std::array<double, 4> values{loss, is_rank_0 ? clock + unseen_ : 0, signal == SIGINT ? 1.0 : 0.0,
                                 signal == SIGTERM ? 1.0 : 0.0};
    communicator_.all_reduce(kolo::Buffer(values));
    if (!std::isfinite(values[0])) {
      support::throw_on_all_ranks(
          communicator_, std::isfinite(loss) ? ""
                                             : fmt::format("the loss of step {} is {}; the weights are those "
                                                           "before it (a smaller --lr may help)",
                                                           history_.steps + 1, loss));
    }
    trained_.value = values[1];
    if (values[3] > 0) history_.signal = SIGTERM;
    if (values[2] > 0) history_.signal = SIGINT;
    return values[0] / communicator_.size();
  }

  void evaluate(std::int64_t every) {
    model_.train(false);
    const kolo::Autocast autocast(in_bfloat16_);
    const double bits = model_.with_whole([&](TransformerImpl& model) {
      return bits_per_byte(model, held_out_, options_.shape.context, every, communicator_);
    });
    history_.held_out.push_back({static_cast<double>(history_.steps), bits, trained_.value});
    if (communicator_.rank() != 0) return;
    line_.note(fmt::format("step {}: {:.3f} bits per byte of {}", history_.steps, bits,
                           every == 1 ? "the held-out text" : "a part of the held-out text"));
  }

  void show(double bits, double bytes_per_second, double waiting) {
    const double left = std::max(0.0, trained_.value / std::max(part(), 1e-9) - trained_.value);
    line_.show(fmt::format(
        "step {:5}  {:.3f} bits/byte  {:6.0f} bytes/s  waiting {:4.1f} %  {:.0f} min {:02.0f} s left",
        history_.steps, bits, bytes_per_second, 100 * waiting, std::floor(left / 60),
        std::floor(std::fmod(left, 60))));
  }

  void resume() {
    if (options_.checkpoint.empty()) return;
    history_.steps = static_cast<std::int64_t>(checkpoint_.resume(options_.checkpoint, communicator_));
    if (history_.steps == 0) return;
    first_step_ = history_.steps;
    if (communicator_.rank() == 0)
      line_.note(fmt::format("goes on after step {}, from {}", history_.steps, options_.checkpoint));
  }

  void save() {
    if (options_.checkpoint.empty()) return;
    checkpoint_.save(options_.checkpoint, static_cast<std::uint64_t>(history_.steps), communicator_);
  }

  void finish() {
    checkpoint_.wait();
    model_.with_whole([&](TransformerImpl& model) {
      if (communicator_.rank() != 0 || history_.signal != 0 || options_.generate == 0) return;
      const kolo::Autocast autocast(in_bfloat16_);
      history_.generated = generate(model, options_);
    });
    const double steps = static_cast<double>(std::max<std::int64_t>(history_.steps - first_step_ - 1, 1));
    const kolo::CommunicationStatistics& total = model_.total();
    const double gradients =
        static_cast<double>(total.bytes) / static_cast<double>(std::max<std::uint64_t>(total.steps, 1));
    const kolo::Metrics mean = kolo::average(
        {{"gradients", gradients}, {"sent", sent_bytes_ / steps}, {"peak", support::peak_bytes()}},
        communicator_);
    history_.communication = {.ranks = history_.ranks,
                              .steps = history_.steps - first_step_,
                              .statistics = total,
                              .gradient_bytes_per_step = mean.at("gradients"),
                              .sent_bytes_per_step = mean.at("sent")};
    history_.peak_bytes = mean.at("peak");
  }

  void choose_timeline_window() {
    const std::int64_t first = first_step_ + kFirstTimelineStep;
    if (history_.steps == first) timeline_->pause(false);
    if (history_.steps == first + options_.timeline_steps) timeline_->pause(true);
  }

  const Options& options_;
  kolo::Communicator& communicator_;
  std::shared_ptr<kolo::Timeline> timeline_;
  support::Corpus corpus_;
  Text training_, held_out_;
  bool in_bfloat16_;
  ParallelModel model_;
  torch::optim::AdamW optimizer_;
  kolo::TrainingSchedule rate_;
  kolo::Checkpoint checkpoint_;
  TrainedSeconds trained_;
  double unseen_ = 0;  ///< seconds of a step after agree()
  support::ProgressLine line_;
  std::int64_t first_step_ = 0;  ///< of this run
  double sent_bytes_ = 0;
  History history_;
};

void require_shape(const Options& options, int ranks) {
  if (options.batch % ranks != 0)
    throw std::invalid_argument(fmt::format("--batch {} cannot be shared by {} ranks", options.batch, ranks));
  if (options.shape.width % options.shape.heads != 0)
    throw std::invalid_argument(
        fmt::format("--width {} cannot be shared by {} heads", options.shape.width, options.shape.heads));
}

}  // namespace

History train(const Options& options, kolo::Communicator& communicator,
              std::shared_ptr<kolo::Timeline> timeline) {
  require_shape(options, communicator.size());
  // Ranks share the cores: threads of their own would only get in each other's way.
  at::set_num_threads(1);
  torch::manual_seed(options.seed);
  return Training(options, communicator, std::move(timeline)).run();
}

}  // namespace language_model
