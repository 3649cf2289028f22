#include "kolo/train/local.hpp"

#include <c10/core/GradMode.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "local/flat_tensors.hpp"
#include "local/plan.hpp"
#include "ranks/failure.hpp"

namespace kolo {
namespace {

using Clock = std::chrono::steady_clock;

void require_dense(const train::Model& model) {
  if (model.tables.empty()) return;
  throw InvalidArgumentError("'" + model.trainable[model.tables[0]].name +
                                 "' has sparse gradients: make the embedding with sparse(false)",
                             {});
}

}  // namespace

struct DelayedAverages::State {
  State(const torch::nn::Module& module, Communicator& communicator)
      : own(communicator.split(0)),
        model(train::agree_and_replicate("DelayedAverages", module, own, "no options", require_dense)),
        flats{train::FlatTensors(model.parameters), train::FlatTensors(model.parameters)} {}

  void copy_gradients(const train::FlatTensors& to) {
    for (std::size_t i = 0; i < model.parameters.size(); ++i) {
      const auto& [name, parameter, note] = model.parameters[i];
      at::Tensor view = to.views()[i];
      const at::Tensor& gradient = parameter.grad();
      if (!gradient.defined()) {
        view.zero_();
        continue;
      }
      if (gradient.layout() != at::kStrided || gradient.sizes() != view.sizes() ||
          gradient.scalar_type() != view.scalar_type()) {
        const std::string reason =
            "the gradient of '" + name + "' is sparse, or of another type or shape than the parameter was";
        train::abort_unless_failed(own, reason);
        throw InvalidArgumentError(reason, {});
      }
      view.copy_(gradient);
    }
  }

  void make_gradients(const train::FlatTensors& from) {
    for (std::size_t i = 0; i < model.parameters.size(); ++i) {
      at::Tensor parameter = model.parameters[i].tensor;
      at::Tensor& gradient = parameter.mutable_grad();
      if (gradient.defined()) {
        gradient.copy_(from.views()[i]);
      } else {
        gradient = from.views()[i].clone();
      }
    }
  }

  /// Whether there are averages, and finite ones.
  bool arrive() {
    if (!is_pending) return false;
    is_pending = false;
    const train::FlatTensors& averages = flats[current];
    const auto begin = Clock::now();
    const auto took = flats[current].finish();
    const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin);
    total.exposed += waited;
    total.hidden += took > waited ? took - waited : std::chrono::nanoseconds(0);
    total.bytes += averages.bytes();
    total.all_reduces += averages.flats().size();
    ++total.steps;
    const bool are_finite = averages.are_finite();  // the same bits on all ranks
    if (!are_finite) ++skipped;
    return are_finite;
  }

  Communicator own;  ///< so calls on the caller's cannot come between those of a step
  train::AgreedModel model;
  std::array<train::FlatTensors, 2> flats;
  std::size_t current = 0;  ///< of `flats`: the averages under way, or those that arrived last
  bool is_pending = false;
  std::uint64_t skipped = 0;
  CommunicationStatistics total;
};

DelayedAverages::DelayedAverages(const torch::nn::Module& module, Communicator communicator) {
  if (!communicator.valid()) throw InvalidArgumentError("the communicator is not valid", {});
  state_ = std::make_unique<State>(module, communicator);
}

DelayedAverages::~DelayedAverages() = default;

bool DelayedAverages::step() {
  const c10::NoGradGuard no_grad;
  State& state = *state_;
  train::require_frozen(state.model, state.own);
  const std::size_t next = 1 - state.current;
  state.copy_gradients(state.flats[next]);
  const bool have_arrived = state.arrive();
  state.flats[next].start_average(state.own, {});
  if (have_arrived) state.make_gradients(state.flats[state.current]);
  state.current = next;
  state.is_pending = true;
  return have_arrived;
}

bool DelayedAverages::finish() {
  const c10::NoGradGuard no_grad;
  const bool have_arrived = state_->arrive();
  if (have_arrived) state_->make_gradients(state_->flats[state_->current]);
  return have_arrived;
}

std::uint64_t DelayedAverages::skipped() const noexcept {
  return state_->skipped;
}

const CommunicationStatistics& DelayedAverages::total() const noexcept {
  return state_->total;
}

void DelayedAverages::save(torch::serialize::OutputArchive& archive) {
  state_->flats[state_->current].finish();
  archive.write("pending", c10::IValue(state_->is_pending));
  train::save_flats(state_->flats[state_->current], archive, "averages");
}

void DelayedAverages::load(torch::serialize::InputArchive& archive) {
  load_or_refuse("DelayedAverages", [&] {
    state_->flats[state_->current].finish();
    train::load_flats(state_->flats[state_->current], archive, "averages");
    c10::IValue is_pending;
    archive.read("pending", is_pending);
    state_->is_pending = is_pending.toBool();
  });
}

}  // namespace kolo
