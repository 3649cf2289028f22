#include "cartpole/trainer.hpp"

#include <ATen/Functions.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>

#include "cartpole/averages.hpp"
#include "cartpole/network.hpp"
#include "kolo/error.hpp"

namespace cartpole {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kEpisodes = 100;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// One rank's part in the training.
class Trainer {
 public:
  Trainer(const Options& options, kolo::Communicator& communicator)
      : options_(options),
        communicator_(communicator),
        averages_(make_averages(options.communication, communicator)),
        network_(options.width, options.seed),
        rollout_(options.rollout, seed_of_rank()),
        shuffle_(seed_of_rank() + 1) {
    rollout_.keep_episodes((kEpisodes + size() - 1) / size());
    network_.parameters().mutable_grad() = network_.gradients();
    optimizer_ =
        std::make_unique<torch::optim::Adam>(std::vector<at::Tensor>{network_.parameters()},
                                             torch::optim::AdamOptions(options.learning_rate).eps(1e-5));
    order_.resize(static_cast<std::size_t>(options.rollout.poles) *
                  static_cast<std::size_t>(options.rollout.horizon));
    std::iota(order_.begin(), order_.end(), 0);
    history_.parameters = network_.parameters().numel();
  }

  History run() {
    communicator_.barrier();
    begin_ = Clock::now();
    while (!is_over()) {
      learn(rollout_.play(network_));
      history_.steps += static_cast<std::int64_t>(order_.size() * size());
      note_progress();
    }
    history_.seconds = seconds_since(begin_);
    require_equal_parameters();
    return history_;
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(communicator_.size()); }
  std::uint64_t seed_of_rank() const {
    return options_.seed * 1'000'003 + static_cast<std::uint64_t>(communicator_.rank()) * 1009;
  }
  bool has_updates() const { return options_.updates == 0 || history_.updates < options_.updates; }
  bool is_over() const {
    const bool is_solved = history_.solved_after > 0 && !options_.goes_on && options_.updates == 0;
    return history_.steps >= options_.steps || !has_updates() || is_solved;
  }

  void learn(const Samples& samples) {
    const double left = 1 - static_cast<double>(history_.steps) / static_cast<double>(options_.steps);
    optimizer_->param_groups()[0].options().set_lr(options_.learning_rate * left);
    const auto minibatch = static_cast<std::size_t>(options_.minibatch);
    for (int epoch = 0; epoch < options_.epochs; ++epoch) {
      std::ranges::shuffle(order_, shuffle_);
      for (std::size_t begin = 0; begin < order_.size() && has_updates(); begin += minibatch)
        update(samples, std::span(order_).subspan(begin, minibatch));
    }
  }

  void update(const Samples& samples, std::span<std::int64_t> indices) {
    const at::Tensor chosen =
        at::from_blob(indices.data(), {static_cast<std::int64_t>(indices.size())}, at::kLong);
    const at::Tensor outputs = network_.forward(samples.observations.index_select(0, chosen));
    network_.backward(objective_gradient(outputs, samples, indices, options_.objective));
    at::Tensor& gradients = network_.gradients();
    const auto before = Clock::now();
    averages_->average(gradients);
    history_.average_seconds += seconds_since(before);
    const double norm = gradients.norm().item<double>();
    if (norm > options_.max_norm) gradients.mul_(options_.max_norm / norm);
    optimizer_->step();
    ++history_.updates;
  }

  /// Of the last episodes of all ranks.
  void note_progress() {
    const auto& episodes = rollout_.last_episodes();
    std::vector<double> sums{
        static_cast<double>(std::accumulate(episodes.begin(), episodes.end(), std::int64_t{0})),
        static_cast<double>(episodes.size())};
    communicator_.all_reduce(kolo::Buffer(sums));
    const auto& round = history_.rounds.emplace_back(
        Progress{history_.steps, sums[1] > 0 ? sums[0] / sums[1] : 0, static_cast<std::int64_t>(sums[1])});
    if (history_.solved_after > 0 || round.episodes < static_cast<std::int64_t>(kEpisodes) ||
        round.mean_return < options_.solved)
      return;
    history_.solved_after = history_.steps;
    history_.solved_seconds = seconds_since(begin_);
  }

  void require_equal_parameters() {
    const float* const own = network_.parameters().data_ptr<float>();
    const std::vector<float> parameters(own, own + network_.parameters().numel());
    std::vector<float> least = parameters, most = parameters;
    communicator_.all_reduce(kolo::Buffer(least), kolo::ReduceOp::min);
    communicator_.all_reduce(kolo::Buffer(most), kolo::ReduceOp::max);
    if (least != most) throw std::runtime_error("the ranks' parameters differ after the last update");
  }

  const Options& options_;
  kolo::Communicator& communicator_;
  std::unique_ptr<Averages> averages_;
  Network network_;
  Rollout rollout_;
  std::mt19937_64 shuffle_;
  std::unique_ptr<torch::optim::Adam> optimizer_;
  std::vector<std::int64_t> order_;
  Clock::time_point begin_;
  History history_;
};

}  // namespace

History train(const Options& options, kolo::Communicator& communicator) {
  const int samples = options.rollout.poles * options.rollout.horizon;
  if (samples % options.minibatch != 0) {
    throw kolo::InvalidArgumentError("minibatches of " + std::to_string(options.minibatch) +
                                         " samples do not divide the " + std::to_string(samples) +
                                         " samples of a round evenly",
                                     {});
  }
  return Trainer(options, communicator).run();
}

}  // namespace cartpole
