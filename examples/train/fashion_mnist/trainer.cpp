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
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "fashion_mnist/feed.hpp"
#include "fashion_mnist/model.hpp"
#include "fashion_mnist/plan.hpp"
#include "fashion_mnist/synchronization.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/checkpoint.hpp"
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
#include "support/run_steps.hpp"
#include "support/sample_record.hpp"

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
  Training(const Options& options, Images& images, kolo::Communicator& communicator,
           std::shared_ptr<kolo::Timeline> timeline)
      : options_(options),
        images_(images),
        communicator_(communicator),
        timeline_(std::move(timeline)),
        record_(options.elastic.record) {
    for (const at::Tensor& parameter : net_->parameters()) history_.parameters += parameter.numel();
  }

  History run() {
    const auto begin = Clock::now();
    kolo::ElasticOptions elastic;
    elastic.on_change = [this](const kolo::ElasticChange& change) { begin_group(change); };
    support::run_steps(
        options_.elastic, communicator_, elastic,
        [this](kolo::Communicator& group, kolo::Checkpoint& state) { set_up(group, state); },
        [this](kolo::Communicator&, std::uint64_t) { return step(); });
    history_.total_seconds = seconds(Clock::now() - begin);
    return history_;
  }

 private:
  /// For a group of ranks.
  void set_up(kolo::Communicator& group, kolo::Checkpoint& state) {
    group_ = &group;
    record_.number_group(group);
    feed_ = make_feed(options_, group, [&] { return images_.training(); });
    plan_ = make_plan(options_, group.size(), [&](std::int64_t batch) {
      feed_->set_batch(batch);
      return feed_->steps_per_epoch();
    });
    steps_ = 0;
    for (const Epoch& epoch : plan_->epochs) steps_ += epoch.steps;
    if (options_.steps > 0) steps_ = std::min(steps_, options_.steps);
    synchronization_.reset();
    optimizer_.reset();
    model_.emplace(net_.ptr(), group, parallel_options(options_, averaged_steps()));
    optimizer_ = make_optimizer(options_, *model_);
    model_->check(*optimizer_);
    synchronization_.emplace(options_, averaged_steps(), *model_, *net_, group);
    if (options_.loss_scale > 0)
      scaler_.emplace(*model_, kolo::LossScalerOptions{.initial_scale = options_.loss_scale});
    if (!options_.figures.empty()) {
      support::on_all_ranks(group, [&] {
        if (group.rank() == 0 && !figures_) figures_.emplace(options_.figures);
        return true;
      });
    }
    line_ = support::ProgressLine(group.rank() == 0 ? options_.progress : "none");
    state.add("model", *model_).add("optimizer", *optimizer_).add("history", history_);
  }

  void begin_group(const kolo::ElasticChange& change) {
    record_.begin_group(change);
    if (options_.elastic.is_on && change.rank == 0) line_.note(support::describe(change));
    history_.ranks = change.size;
    feed_epoch_.reset();
    costs_ = {.first_step = history_.steps, .first_second = history_.training_seconds};
    begin_report();
  }

  void begin_report() {
    report_ = {.begin = Clock::now(), .exposed_before = synchronization_->total().exposed};
  }

  /// Of post-local: those whose gradients are averaged.
  std::uint64_t averaged_steps() const {
    return static_cast<std::uint64_t>(
        std::llround(options_.averaged_epochs * static_cast<double>(plan_->epochs[0].whole)));
  }

  /// The epoch and its step that come after all steps so far.
  void find_epoch() {
    step_of_epoch_ = history_.steps;
    for (epoch_ = 0; epoch_ + 1 < plan_->epochs.size() && step_of_epoch_ >= plan_->epochs[epoch_].steps;
         ++epoch_) {
      step_of_epoch_ -= plan_->epochs[epoch_].steps;
    }
  }

  bool is_to_evaluate() const {
    const bool is_epochs_end = step_of_epoch_ == 0 || history_.steps == steps_;
    const bool is_time = options_.evaluate_every > 0 && history_.steps % options_.evaluate_every == 0;
    return history_.steps > 0 && (is_epochs_end || is_time);
  }

  /// What run_elastic() calls a step. Returns false where none is left.
  bool step() {
    find_epoch();
    if (history_.signal == 0 && is_to_evaluate()) {
      evaluate();
      begin_report();
    }
    if (history_.signal != 0 || history_.steps == steps_) {
      timeline_->pause(true);
      sum_up();
      return false;
    }
    choose_timeline_window();
    const Epoch& epoch = plan_->epochs[epoch_];
    if (feed_epoch_ != epoch_) {
      feed_->set_batch(epoch.batch);
      feed_->begin_epoch(static_cast<int>(epoch_), step_of_epoch_);
      feed_epoch_ = epoch_;
    }
    descend(epoch.batch);
    return true;
  }

  /// One step of gradient descent.
  void descend(std::int64_t images) {
    const auto number = static_cast<std::uint64_t>(history_.steps);
    rate_ = plan_->rate(number);
    kolo::set_learning_rate(*optimizer_, rate_);
    if (plan_->momentum) kolo::set_momentum(*optimizer_, (*plan_->momentum)(number));
    const auto begin = Clock::now();
    const kolo::Batch batch = feed_->next();
    const auto fed = Clock::now();
    record_.take(number, epoch_, feed_->samples());
    if (history_.steps == 0) history_.data_ready_seconds = seconds(fed - images_.begin);
    optimizer_->zero_grad();
    if (!synchronization_->sends_between_steps()) costs_.sent_before = group_->counters().bytes_sent;
    const double scale = scaler_ ? scaler_->scale() : 1;
    // The mean over ranks of such losses is the mean over images, however many each rank has.
    const double weight =
        static_cast<double>(batch[0].size(0) * group_->size()) / static_cast<double>(images);
    std::optional<Clock::time_point> backward;  // of the part that was computed last
    const auto end_part = [&](Clock::time_point now) {
      if (backward) timeline_->span("backward", "compute", *backward, now);
    };
    timeline_->span("data", "compute", begin, Clock::now());
    const at::Tensor loss =
        kolo::accumulate(*model_, batch, options_.accumulate, [&](const kolo::Batch& part) {
          const auto forward = Clock::now();
          end_part(forward);
          const at::Tensor of_part = loss_of(part) * weight;
          backward = Clock::now();
          timeline_->span("forward", "compute", forward, *backward);
          return scaler_ ? scaler_->scale(of_part) : of_part;
        });
    const auto update = Clock::now();
    end_part(update);
    const double sum = report_.loss_sum + loss.item().toDouble() / scale;
    const std::int64_t steps = report_.steps + 1;
    const bool reports = is_report_after(steps);
    // The last call to other ranks before parameters change, where ranks average gradients.
    const std::uint64_t sent_averages = group_->counters().bytes_sent;
    const double mean = reports ? agree(sum / static_cast<double>(steps)) : 0;
    costs_.sent_before += group_->counters().bytes_sent - sent_averages;
    synchronization_->step([this] { optimizer_step(); }, history_.steps + 1 == steps_);
    const std::uint64_t sent_after = group_->counters().bytes_sent;
    const auto end = Clock::now();
    timeline_->span("optimizer", "compute", update, end);
    if (history_.steps++ > costs_.first_step) {
      costs_.gradient_bytes += static_cast<double>(model_->last_step().bytes);
      costs_.sent_bytes += static_cast<double>(sent_after - costs_.sent_before);
      costs_.data_wait += seconds(fed - begin);
    }
    costs_.sent_before = sent_after;
    history_.samples += images;
    ++step_of_epoch_;
    report_.loss_sum = sum;
    report_.steps = steps;
    if (reports) report(mean, images);
  }

  void optimizer_step() {
    if (scaler_) {
      scaler_->step(*optimizer_);
    } else if (options_.hook.empty() || model_->averages_are_finite()) {  // the same on all ranks
      optimizer_->step();
    }
  }

  at::Tensor loss_of(const kolo::Batch& part) {
    const kolo::Autocast autocast(options_.in_bfloat16);
    return functional::cross_entropy((*model_)(part[0]).to(at::kFloat), part[1]);
  }

  bool is_report_after(std::int64_t steps) const {
    const std::int64_t next = history_.steps + 1;
    return steps == kStepsPerReport || step_of_epoch_ + 1 == plan_->epochs[epoch_].steps || next == steps_ ||
           (options_.evaluate_every > 0 && next % options_.evaluate_every == 0);
  }

  void report(double loss, std::int64_t batch) {
    const double elapsed = seconds(Clock::now() - report_.begin);
    const auto steps = static_cast<double>(report_.steps);
    history_.training_seconds += elapsed;
    history_.losses.push_back({epochs_done(), loss, history_.training_seconds});
    history_.rates.push_back({epochs_done(), rate_, history_.training_seconds});
    const double waiting = seconds(synchronization_->total().exposed - report_.exposed_before) / elapsed;
    line_.show(fmt::format("epoch {}/{}  step {:4}/{}  loss {:.4f}  {:6.0f} images/s  waiting {:4.1f} %",
                           epoch_ + 1, plan_->epochs.size(), history_.steps, steps_, loss,
                           steps * static_cast<double>(batch) / elapsed, 100 * waiting));
    if (figures_) {
      figures_->write(static_cast<std::uint64_t>(history_.steps), {{"train/loss", loss},
                                                                   {"train/learning rate", rate_},
                                                                   {"time/step", elapsed / steps},
                                                                   {"time/waiting", waiting}});
    }
    begin_report();
  }

  /// The mean loss of all ranks; notes an interrupt of any of them.
  double agree(double loss) {
    const int signal = support::interrupt_signal();
    std::array<double, 3> values{loss, signal == SIGINT ? 1.0 : 0.0, signal == SIGTERM ? 1.0 : 0.0};
    group_->all_reduce(kolo::Buffer(values));
    if (values[2] > 0) history_.signal = SIGTERM;
    if (values[1] > 0) history_.signal = SIGINT;
    return values[0] / group_->size();
  }

  /// Each rank looks at its part of the test images.
  void evaluate() {
    const c10::NoGradGuard no_grad;
    const auto averaged = synchronization_->averaged();
    (*model_)->eval();
    const std::int64_t images = images_.test.size();
    const std::int64_t begin = images * group_->rank() / group_->size();
    const std::int64_t end = images * (group_->rank() + 1) / group_->size();
    std::array<std::int64_t, 1> correct{};
    for (std::int64_t i = begin; i < end; i += kEvaluationBatch) {
      const std::int64_t next = std::min(i + kEvaluationBatch, end);
      const at::Tensor guesses = net_->forward(images_.test.images.slice(0, i, next)).argmax(1);
      correct[0] += guesses.eq(images_.test.labels.slice(0, i, next)).sum().item().toLong();
    }
    (*model_)->train();
    group_->all_reduce(kolo::Buffer(correct));
    const double accuracy = 100.0 * static_cast<double>(correct[0]) / static_cast<double>(images);
    history_.add_evaluation(epochs_done(), accuracy);
    if (figures_) figures_->write(static_cast<std::uint64_t>(history_.steps), {{"test/accuracy", accuracy}});
    if (group_->rank() == 0) {
      line_.note(fmt::format("epoch {:.4g}: {} accuracy {:.2f} %", epochs_done(),
                             options_.held_out > 0 ? "held-out" : "test", accuracy));
    }
  }

  /// Collective. What communication cost is that of the last group of ranks.
  void sum_up() {
    const std::int64_t made = history_.steps - costs_.first_step;
    const double steps = static_cast<double>(std::max<std::int64_t>(made - 1, 1));
    const kolo::Metrics mean = kolo::average({{"gradients", costs_.gradient_bytes / steps},
                                              {"sent", costs_.sent_bytes / steps},
                                              {"data wait", costs_.data_wait / steps},
                                              {"data ready", history_.data_ready_seconds},
                                              {"peak", support::peak_bytes()}},
                                             *group_);
    history_.communication = {.ranks = history_.ranks,
                              .steps = made,
                              .seconds = history_.training_seconds - costs_.first_second,
                              .statistics = synchronization_->total(),
                              .gradient_bytes_per_step = mean.at("gradients"),
                              .sent_bytes_per_step = mean.at("sent")};
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

  double epochs_done() const {
    return static_cast<double>(epoch_) +
           static_cast<double>(step_of_epoch_) / static_cast<double>(plan_->epochs[epoch_].whole);
  }

  /// Since the last line of progress, of one group of ranks.
  struct Report {
    Clock::time_point begin;
    std::chrono::nanoseconds exposed_before;
    double loss_sum = 0;
    std::int64_t steps = 0;
  };
  /// Of one group of ranks.
  struct Costs {
    std::int64_t first_step = 0;
    double first_second = 0;  ///< of training
    double gradient_bytes = 0, sent_bytes = 0, data_wait = 0;
    std::uint64_t sent_before = 0;
  };

  const Options& options_;
  Images& images_;
  kolo::Communicator& communicator_;
  std::shared_ptr<kolo::Timeline> timeline_;
  support::SampleRecord record_;
  Net net_;
  kolo::Communicator* group_ = nullptr;
  std::unique_ptr<Feed> feed_;
  std::optional<Plan> plan_;
  std::optional<kolo::DistributedDataParallel<NetImpl>> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;  ///< after the model, which it may use
  std::optional<kolo::LossScaler> scaler_;
  std::optional<Synchronization> synchronization_;
  support::ProgressLine line_{"none"};
  std::optional<kolo::FigureWriter> figures_;
  std::int64_t steps_ = 0;  ///< in all
  std::size_t epoch_ = 0;
  std::int64_t step_of_epoch_ = 0;
  std::optional<std::size_t> feed_epoch_;  ///< the one that the feed has begun
  double rate_ = 0;
  Report report_{};
  Costs costs_;
  History history_;
};

}  // namespace

const Dataset& Images::all() {
  if (!all_) all_ = load(options_.data, true, options_.limit);
  return *all_;
}

const Dataset& Images::training() {
  if (!training_) training_ = all().slice(0, std::max<std::int64_t>(all().size() - options_.held_out, 0));
  return *training_;
}

Images::Images(const Options& options) : options_(options) {
  if (options.reader == "sampler") training();
  const auto held_out = [&] {
    return all().slice(std::max<std::int64_t>(all().size() - options.held_out, 0), all().size());
  };
  test = options.held_out > 0 ? held_out() : load(options.data, false);
}

History train(const Options& options, Images& images, kolo::Communicator& communicator,
              std::shared_ptr<kolo::Timeline> timeline) {
  // Ranks share the cores: threads of their own would only get in each other's way.
  at::set_num_threads(1);
  torch::manual_seed(options.seed);
  return Training(options, images, communicator, std::move(timeline)).run();
}

}  // namespace fashion_mnist
