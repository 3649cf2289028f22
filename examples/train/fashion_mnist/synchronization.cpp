#include "fashion_mnist/synchronization.hpp"

#include <stdexcept>

#include "kolo/train/averages.hpp"
#include "kolo/train/hooks.hpp"

namespace fashion_mnist {

void set_synchronization(const Options& options, std::uint64_t averaged_steps,
                         kolo::DistributedDataParallelOptions& parallel) {
  const std::string& chosen = options.synchronization;
  if (chosen == "every-step") return;
  if (!options.hook.empty() || !options.wire.empty() || options.loss_scale > 0 ||
      options.optimizer == "one_bit_adam") {
    throw std::invalid_argument("--synchronization " + chosen +
                                " excludes --hook, --wire, --loss-scale and --optimizer one_bit_adam, which "
                                "need averages in every step");
  }
  parallel.hook =
      kolo::make_post_local_sgd_hook({.start_after_steps = chosen == "post-local" ? averaged_steps : 0});
  parallel.broadcast_buffers = false;
}

Synchronization::Synchronization(const Options& options, std::uint64_t averaged_steps,
                                 const kolo::DistributedDataParallelBase& model, const torch::nn::Module& net,
                                 kolo::Communicator& communicator)
    : model_(model), net_(net), communicator_(communicator) {
  const std::string& chosen = options.synchronization;
  if (chosen == "late") late_.emplace(net, communicator);
  if (chosen == "gossip")
    gossip_.emplace(net, communicator, kolo::methods::GossipAveragerOptions{options.period});
  if (chosen != "local" && chosen != "post-local") return;
  kolo::ModelAveragerOptions local{.period = options.period};
  if (chosen == "post-local") local.start_after_steps = averaged_steps;
  if (options.outer_learning_rate > 0)
    local.outer = {.learning_rate = options.outer_learning_rate, .momentum = options.outer_momentum};
  local_.emplace(net, communicator, local);
}

bool Synchronization::averages_gradients() const {
  return !late_ && !gossip_ && !(local_ && local_->is_local());
}

void Synchronization::step(const OptimizerStep& optimizer_step, bool is_last) {
  if (averages_gradients()) of_gradients_ += model_.last_step();
  if (!late_ || late_->step()) optimizer_step();
  if (gossip_) gossip_->step();
  const bool are_equal = !gossip_ && (!local_ || local_->step() || !local_->is_local());
  if (!is_last) return;
  if (late_ && late_->finish()) optimizer_step();
  if (!are_equal) kolo::average_parameters(net_, communicator_);
}

std::unique_ptr<kolo::AveragedModel> Synchronization::averaged() const {
  if (!gossip_ && !local_) return nullptr;
  return std::make_unique<kolo::AveragedModel>(net_, communicator_);
}

kolo::CommunicationStatistics Synchronization::total() const {
  kolo::CommunicationStatistics total = of_gradients_;
  const auto add = [&](const auto& averager) {
    if (!averager) return;
    total.all_reduces += averager->total().all_reduces;
    total.bytes += averager->total().bytes;
    total.hidden += averager->total().hidden;
    total.exposed += averager->total().exposed;
  };
  add(late_);
  add(gossip_);
  add(local_);
  return total;
}

}  // namespace fashion_mnist
