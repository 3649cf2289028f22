#include "parameter_server/worker.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "fashion_mnist/data.hpp"
#include "fashion_mnist/model.hpp"
#include "kolo/train/data.hpp"
#include "kolo/train/optim.hpp"
#include "parameter_server/plan.hpp"
#include "support/progress_line.hpp"

namespace parameter_server {
namespace {

using Clock = std::chrono::steady_clock;
using fashion_mnist::Dataset;

constexpr std::int64_t kStepsPerReport = 10;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What a worker reads before it meets the other ranks.
struct Prepared {
  std::optional<Plan> plan;
  Dataset training, test;
};

Prepared prepare(const Options& options, int worker, int workers) {
  Prepared prepared{.plan = make_plan(options, workers), .training = {}, .test = {}};
  if (options.slow_worker >= workers) {
    throw std::invalid_argument("--slow-worker " + std::to_string(options.slow_worker) + ", and there are " +
                                std::to_string(workers));
  }
  if (options.is_replayed()) return prepared;
  prepared.training = fashion_mnist::load(options.data, true, options.limit);
  if (worker == 0) prepared.test = fashion_mnist::load(options.data, false);
  return prepared;
}

/// The worker's own images of each epoch, a part of a step's batch at a time.
class Batches {
 public:
  Batches(const Dataset& data, int worker, int workers, const Options& options, std::int64_t share)
      : data_(data),
        sampler_(data.size(), worker, workers, {.seed = options.seed, .drop_last = true}),
        share_(share) {}

  Dataset next() {
    if (!indices_.defined() || at_ + share_ > indices_.numel()) {
      sampler_.set_epoch(epoch_++);
      indices_ = at::tensor(sampler_.indices(), at::kLong);
      at_ = 0;
    }
    const at::Tensor which = indices_.slice(0, at_, at_ + share_);
    at_ += share_;
    return {data_.images.index_select(0, which), data_.labels.index_select(0, which)};
  }

 private:
  const Dataset& data_;
  kolo::DistributedSampler sampler_;
  std::int64_t share_;
  at::Tensor indices_;
  std::int64_t at_ = 0;
  std::uint64_t epoch_ = 0;
};

class Worker {
 public:
  Worker(const Options& options, const Prepared& prepared, kolo::methods::ParameterServerClient& client,
         fashion_mnist::Net net)
      : options_(options),
        plan_(*prepared.plan),
        client_(client),
        net_(std::move(net)),
        line_(client.worker() == 0 ? options.progress : "none") {
    if (!options.is_replayed())
      batches_.emplace(prepared.training, client.worker(), client.workers(), options, plan_.share);
    if (options.push == "weights") optimizer_ = make_optimizer(options, net_->parameters());
  }

  nlohmann::json run() {
    client_.pull();
    const auto begin = Clock::now();
    for (step_ = 0; !is_over(begin); ++step_) {
      compute();
      const auto computed = Clock::now();
      if ((step_ + 1) % options_.local_steps == 0) push();
      waiting_ += seconds_since(computed);
      report(begin);
    }
    const double seconds = seconds_since(begin);
    client_.finish();
    return {{"worker", client_.worker()},
            {"steps", step_},
            {"images", images()},
            {"seconds", seconds},
            {"waiting_seconds", waiting_},
            {"staleness", staleness_},
            {"dropped", dropped_},
            {"divided", divided_},
            {"loss", losses_}};
  }

 private:
  bool is_over(Clock::time_point begin) const {
    return options_.is_replayed() ? seconds_since(begin) >= options_.seconds : step_ >= plan_.steps;
  }

  void compute() {
    if (options_.is_replayed()) {
      const bool is_slow = client_.worker() == options_.slow_worker;
      std::this_thread::sleep_for(
          std::chrono::duration<double, std::milli>(is_slow ? options_.slow_ms : options_.compute_ms));
      return;
    }
    const Dataset batch = batches_->next();
    for (at::Tensor& parameter : net_->parameters()) parameter.mutable_grad() = at::Tensor();
    const at::Tensor loss = torch::nn::functional::cross_entropy(net_(batch.images), batch.labels);
    loss.backward();
    loss_ += loss.item<double>();
    if (!optimizer_) return;
    kolo::set_learning_rate(*optimizer_, plan_.rate(static_cast<std::uint64_t>(step_)));
    optimizer_->step();
  }

  void push() {
    const kolo::methods::PushReport report = client_.step();
    staleness_.push_back(report.staleness);
    dropped_ += report.dropped > 0 ? 1 : 0;
    divided_ += report.divided > 0 ? 1 : 0;
  }

  void report(Clock::time_point begin) {
    if ((step_ + 1) % kStepsPerReport != 0) return;
    const double seconds = seconds_since(begin);
    const double rate = static_cast<double>((step_ + 1) * plan_.share) / seconds;
    const std::uint64_t staleness = staleness_.empty() ? 0 : staleness_.back();
    const double waiting = 100 * waiting_ / seconds;
    if (options_.is_replayed()) {
      line_.show(fmt::format("step {:4}  {:5.0f} images/s of worker 0  staleness {:2}  waiting {:4.1f} %",
                             step_ + 1, rate, staleness, waiting));
      return;
    }
    const double loss = std::exchange(loss_, 0) / kStepsPerReport;
    losses_.push_back({step_ + 1, loss});
    line_.show(fmt::format(
        "step {:4}/{}  loss {:.4f}  {:5.0f} images/s of worker 0  staleness {:2}  waiting {:4.1f} %",
        step_ + 1, plan_.steps, loss, rate, staleness, waiting));
  }

  /// Those that count: a dropped push has no effect.
  std::int64_t images() const { return (step_ - dropped_ * options_.local_steps) * plan_.share; }

  const Options& options_;
  const Plan& plan_;
  kolo::methods::ParameterServerClient& client_;
  fashion_mnist::Net net_;
  support::ProgressLine line_;
  std::optional<Batches> batches_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;  ///< of pushes of weights
  std::int64_t step_ = 0;
  std::int64_t dropped_ = 0, divided_ = 0;
  double loss_ = 0, waiting_ = 0;
  std::vector<std::uint64_t> staleness_;
  std::vector<std::pair<std::int64_t, double>> losses_;
};

double accuracy(fashion_mnist::Net& net, const Dataset& test) {
  constexpr std::int64_t kEvaluationBatch = 500;
  const c10::NoGradGuard no_grad;
  std::int64_t correct = 0;
  for (std::int64_t begin = 0; begin < test.size(); begin += kEvaluationBatch) {
    const Dataset part = test.slice(begin, std::min(begin + kEvaluationBatch, test.size()));
    correct += net(part.images).argmax(1).eq(part.labels).sum().item<std::int64_t>();
  }
  return 100.0 * static_cast<double>(correct) / static_cast<double>(test.size());
}

}  // namespace

nlohmann::json work(const Options& options, const kolo::Launch& launch, std::shared_ptr<kolo::Store> store) {
  at::set_num_threads(1);
  torch::manual_seed(options.seed);
  kolo::methods::ParameterServerOptions rules = server_options(options);
  Prepared prepared;
  const int workers = launch.size - options.servers;
  try {
    if (options.servers > 0) prepared = prepare(options, launch.rank - options.servers, workers);
  } catch (const std::exception& error) {
    rules.problem = error.what();
  }
  fashion_mnist::Net net;
  kolo::methods::ParameterServerClient client(std::move(store), launch.rank, launch.size, *net, rules);
  nlohmann::json found = Worker(options, prepared, client, net).run();
  if (client.worker() == 0 && !options.is_replayed()) found["test_accuracy"] = accuracy(net, prepared.test);
  return found;
}

}  // namespace parameter_server
