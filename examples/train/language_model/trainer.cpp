#include "language_model/trainer.hpp"

#include "kolo/train/libtorch.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

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
#include "support/run_steps.hpp"
#include "support/sample_record.hpp"

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

/// Collective.
bool is_in_bfloat16(const Options& options, kolo::Communicator& communicator) {
  if (options.precision != "auto") return options.precision == "bfloat16";
  std::int64_t have = kolo::has_bfloat16_products() ? 1 : 0;
  communicator.all_reduce(kolo::Buffer(&have, 1, kolo::DType::int64), kolo::ReduceOp::min);
  return have == 1;
}

/// An elastic training shares out any batch; the first ranks get more.
void require_share(const Options& options, int ranks) {
  if (options.elastic.is_on ? options.batch < ranks : options.batch % ranks != 0)
    throw std::invalid_argument(fmt::format("--batch {} cannot be shared by {} ranks", options.batch, ranks));
}

class Training {
 public:
  Training(const Options& options, const support::Corpus& corpus, kolo::Communicator& communicator,
           std::shared_ptr<kolo::Timeline> timeline)
      : options_(options),
        communicator_(communicator),
        timeline_(std::move(timeline)),
        record_(options.elastic.record),
        training_(corpus.training, options.shape.context),
        held_out_(corpus.held_out, options.shape.context),
        net_(options.shape),
        rate_(kolo::TrainingSchedule::cosine(options.learning_rate,
                                             {.total = kParts, .warm_up = kParts / 50})) {
    history_.training_bytes = static_cast<std::int64_t>(corpus.training.size());
    history_.held_out_bytes = static_cast<std::int64_t>(corpus.held_out.size());
    history_.bytes_per_step = options.batch * options.shape.context;
    history_.gzip_bits = support::gzip_bits_per_byte(corpus.held_out);
  }

  History run() {
    const auto begin = Clock::now();
    kolo::ElasticOptions elastic;
    elastic.folder = options_.checkpoint;
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
    require_share(options_, group.size());
    group_ = &group;
    state_ = &state;
    record_.number_group(group);
    history_.in_bfloat16 = is_in_bfloat16(options_, group);
    optimizer_.reset();
    model_.emplace(options_, net_, group);
    optimizer_.emplace(model_->groups());
    model_->add_to(state, *optimizer_);
    state.add("history", history_);
    history_.parameters = model_->parameters();
  }

  void begin_group(const kolo::ElasticChange& change) {
    record_.begin_group(change);
    history_.ranks = change.size;
    first_step_ = history_.steps;
    first_second_ = history_.training_seconds;
    sent_bytes_ = unseen_ = 0;
    line_ = support::ProgressLine(change.rank == 0 ? options_.progress : "none");
    if (change.rank == 0 && options_.elastic.is_on) {
      line_.note(support::describe(change));
    } else if (change.rank == 0 && change.step > 0) {
      line_.note(fmt::format("goes on after step {}, from {}", change.step, change.origin));
    }
    begin_report();
  }

  void begin_report() {
    report_ = {.begin = history_.training_seconds, .exposed_before = model_->total().exposed};
  }

  /// Of the whole training, what is done; the same on all ranks.
  double part() const { return part(history_.steps, history_.training_seconds); }
  double part(std::int64_t steps, double trained) const {
    if (options_.steps > 0) return static_cast<double>(steps) / static_cast<double>(options_.steps);
    return trained / (60 * options_.minutes);
  }
  /// How many evaluations are due then.
  static std::int64_t evaluations(double part) { return static_cast<std::int64_t>(part * kEvaluations); }
  /// Whether one is, after the last step.
  bool is_to_evaluate() const {
    return history_.steps > 0 &&
           evaluations(part()) > evaluations(part(history_.steps - 1, history_.seconds_before));
  }

  /// What run_elastic() calls a step. Returns false where none is left.
  bool step() {
    if (history_.signal == 0 && part() < 1) {
      if (is_to_evaluate()) {
        evaluate(kWindowsSkipped);
        save();
      }
      descend();
      return true;
    }
    save();
    timeline_->pause(true);
    if (history_.signal == 0) evaluate(1);
    finish();
    return false;
  }

  /// One step of gradient descent.
  void descend() {
    choose_timeline_window();
    const auto begin = Clock::now();
    kolo::set_learning_rate(*optimizer_, rate_(static_cast<std::uint64_t>(part() * kParts)));
    optimizer_->zero_grad();
    const std::uint64_t sent_before = group_->counters().bytes_sent;
    const at::Tensor loss = loss_of_share();
    const auto backward = Clock::now();
    timeline_->span("forward", "compute", begin, backward);
    loss.backward();
    const std::uint64_t sent = group_->counters().bytes_sent - sent_before;
    const auto update = Clock::now();
    timeline_->span("backward", "compute", backward, update);
    const double trained = history_.training_seconds;
    const double mean = agree(loss.item().toDouble(), trained + seconds(update - begin));
    const auto agreed = Clock::now();
    model_->clip_gradients(options_.max_norm);
    optimizer_->step();
    timeline_->span("optimizer", "compute", agreed, Clock::now());
    history_.seconds_before = trained;
    if (history_.steps++ > first_step_) sent_bytes_ += static_cast<double>(sent);
    unseen_ = seconds(Clock::now() - update);
    report_.loss_sum += mean;
    if (++report_.steps == kStepsPerReport || part() >= 1 || is_to_evaluate() || history_.signal != 0)
      report();
  }

  void report() {
    const double bits = report_.loss_sum / static_cast<double>(report_.steps) / std::log(2.0);
    const double elapsed = history_.training_seconds - report_.begin;
    history_.losses.push_back({static_cast<double>(history_.steps), bits, history_.training_seconds});
    show(bits, static_cast<double>(report_.steps * history_.bytes_per_step) / elapsed,
         seconds(model_->total().exposed - report_.exposed_before) / elapsed);
    begin_report();
  }

  at::Tensor loss_of_share() {
    const std::int64_t rank = group_->rank(), ranks = group_->size();
    const std::int64_t begin = options_.batch * rank / ranks, end = options_.batch * (rank + 1) / ranks;
    const Windows share = training_.draw(options_.seed, history_.steps, options_.batch, begin, end);
    std::vector<std::int64_t> samples(static_cast<std::size_t>(end - begin));
    std::iota(samples.begin(), samples.end(), history_.steps * options_.batch + begin);
    record_.take(static_cast<std::uint64_t>(history_.steps), 0, samples);
    const kolo::Autocast autocast(history_.in_bfloat16);
    // The mean over ranks of such losses is the mean over windows, however many each rank has.
    return torch::nn::functional::cross_entropy((*model_)(share.inputs).to(at::kFloat).view({-1, kBytes}),
                                                share.targets.flatten()) *
           (static_cast<double>((end - begin) * ranks) / static_cast<double>(options_.batch));
  }

  /// The mean loss of all ranks; notes rank 0's clock, which decides when training ends, and an interrupt of
  /// any rank. Throws before the optimizer has made weights of a loss that is no number.
  double agree(double loss, double clock) {
    const int signal = support::interrupt_signal();
    const bool is_rank_0 = group_->rank() == 0;
    std::array<double, 4> values{loss, is_rank_0 ? clock + unseen_ : 0, signal == SIGINT ? 1.0 : 0.0,
                                 signal == SIGTERM ? 1.0 : 0.0};
    group_->all_reduce(kolo::Buffer(values));
    if (!std::isfinite(values[0])) {
      support::throw_on_all_ranks(
          *group_, std::isfinite(loss) ? ""
                                       : fmt::format("the loss of step {} is {}; the weights are those "
                                                     "before it (a smaller --lr may help)",
                                                     history_.steps + 1, loss));
    }
    history_.training_seconds = values[1];
    if (values[3] > 0) history_.signal = SIGTERM;
    if (values[2] > 0) history_.signal = SIGINT;
    return values[0] / group_->size();
  }

  void evaluate(std::int64_t every) {
    model_->train(false);
    const kolo::Autocast autocast(history_.in_bfloat16);
    const double bits = model_->with_whole([&](TransformerImpl& model) {
      return bits_per_byte(model, held_out_, options_.shape.context, every, *group_);
    });
    model_->train(true);
    history_.add_evaluation(static_cast<double>(history_.steps), bits);
    if (group_->rank() != 0) return;
    line_.note(fmt::format("step {}: {:.3f} bits per byte of {}", history_.steps, bits,
                           every == 1 ? "the held-out text" : "a part of the held-out text"));
  }

  void show(double bits, double bytes_per_second, double waiting) {
    const double left = std::max(0.0, history_.training_seconds * (1 / std::max(part(), 1e-9) - 1));
    line_.show(fmt::format(
        "step {:5}  {:.3f} bits/byte  {:6.0f} bytes/s  waiting {:4.1f} %  {:.0f} min {:02.0f} s left",
        history_.steps, bits, bytes_per_second, 100 * waiting, std::floor(left / 60),
        std::floor(std::fmod(left, 60))));
  }

  void save() {
    if (options_.checkpoint.empty() || history_.steps == first_step_) return;
    state_->save(options_.checkpoint, static_cast<std::uint64_t>(history_.steps), *group_);
  }

  /// Collective. What communication cost is that of the last group of ranks.
  void finish() {
    state_->wait();
    model_->with_whole([&](TransformerImpl& model) {
      if (communicator_.rank() != 0 || history_.signal != 0 || options_.generate == 0) return;
      const kolo::Autocast autocast(history_.in_bfloat16);
      history_.generated = generate(model, options_);
    });
    const std::int64_t made = history_.steps - first_step_;
    const kolo::CommunicationStatistics& total = model_->total();
    const double gradients =
        static_cast<double>(total.bytes) / static_cast<double>(std::max<std::uint64_t>(total.steps, 1));
    const kolo::Metrics mean =
        kolo::average({{"gradients", gradients},
                       {"sent", sent_bytes_ / static_cast<double>(std::max<std::int64_t>(made - 1, 1))},
                       {"peak", support::peak_bytes()}},
                      *group_);
    history_.communication = {.ranks = history_.ranks,
                              .steps = made,
                              .seconds = history_.training_seconds - first_second_,
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

  /// Since the last line of progress, of one group of ranks.
  struct Report {
    double begin = 0;  ///< seconds of training
    std::chrono::nanoseconds exposed_before{};
    double loss_sum = 0;
    std::int64_t steps = 0;
  };

  const Options& options_;
  kolo::Communicator& communicator_;
  std::shared_ptr<kolo::Timeline> timeline_;
  support::SampleRecord record_;
  Text training_, held_out_;
  Transformer net_;
  kolo::TrainingSchedule rate_;
  kolo::Communicator* group_ = nullptr;
  kolo::Checkpoint* state_ = nullptr;
  std::optional<ParallelModel> model_;
  std::optional<torch::optim::AdamW> optimizer_;
  support::ProgressLine line_{"none"};
  double unseen_ = 0;            ///< seconds of a step after agree()
  std::int64_t first_step_ = 0;  ///< of this group of ranks
  double first_second_ = 0;      ///< of training, in which it began
  double sent_bytes_ = 0;
  Report report_;
  History history_;
};

}  // namespace

History train(const Options& options, const support::Corpus& corpus, kolo::Communicator& communicator,
              std::shared_ptr<kolo::Timeline> timeline) {
  if (options.shape.width % options.shape.heads != 0)
    throw std::invalid_argument(
        fmt::format("--width {} cannot be shared by {} heads", options.shape.width, options.shape.heads));
  // Ranks share the cores: threads of their own would only get in each other's way.
  at::set_num_threads(1);
  torch::manual_seed(options.seed);
  return Training(options, corpus, communicator, std::move(timeline)).run();
}

}  // namespace language_model
