#include "kolo/train/local.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "kolo/error.hpp"
#include "local/plan.hpp"
#include "ranks/span.hpp"

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
        model(train::agree_on_model("DelayedAverages", module, own, true, "no options", require_dense)),
        flats{flats_by_type(model.trainable), flats_by_type(model.trainable)} {}

  train::NamedTensors gradients() const {
    train::NamedTensors result;
    for (const auto& [name, parameter, note] : model.trainable) {
      const at::Tensor& gradient = parameter.grad();
      result.push_back({name, gradient.defined()
                                  ? gradient
                                  : at::zeros({}, parameter.detach().options()).expand(parameter.sizes())});
    }
    return result;
  }

  void make_gradients() {
    for (const FlatTensors& flat : flats[current]) {
      for (std::size_t part = 0; part < flat.parts().size(); ++part) {
        at::Tensor& gradient = model.trainable[flat.member(part)].tensor.mutable_grad();
        if (gradient.defined()) {
          gradient.copy_(flat.view(part));
        } else {
          gradient = flat.view(part).clone();
        }
      }
    }
  }

  /// Whether there are averages, and finite ones.
  bool arrive() {
    if (!is_pending) return false;
    is_pending = false;
    const auto begin = Clock::now();
    std::optional<train::Span> span(std::in_place, own, "wait for averages");
    const auto took = wait_all(works);
    span.reset();
    if (own.timeline()) own.timeline()->span("averages", "buckets", started, started + took);
    const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin);
    total.exposed += waited;
    total.hidden += took > waited ? took - waited : std::chrono::nanoseconds(0);
    total.bytes += train::bytes_of(flats[current]);
    total.all_reduces += flats[current].size();
    ++total.steps;
    const bool is_finite = are_finite(flats[current]);  // the same bits on all ranks
    if (!is_finite) ++skipped;
    return is_finite;
  }

  Communicator own;  ///< so calls on the caller's cannot come between those of a step
  train::Model model;
  std::array<std::vector<FlatTensors>, 2> flats;
  std::vector<TensorWork> works;  ///< on flats[current]
  std::size_t current = 0;        ///< of `flats`: the averages under way, or those that arrived last
  bool is_pending = false;
  Clock::time_point started;  ///< of the averages under way
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
  const std::size_t next = 1 - state.current;
  train::pack(state.model, state.gradients(), state.flats[next], state.own, "the gradient of ");
  const bool have_arrived = state.arrive();
  state.started = Clock::now();
  state.works = train::start_averages(state.flats[next], state.own);
  if (have_arrived) state.make_gradients();
  state.current = next;
  state.is_pending = true;
  return have_arrived;
}

bool DelayedAverages::finish() {
  const c10::NoGradGuard no_grad;
  const bool have_arrived = state_->arrive();
  if (have_arrived) state_->make_gradients();
  return have_arrived;
}

std::uint64_t DelayedAverages::skipped() const noexcept {
  return state_->skipped;
}

const CommunicationStatistics& DelayedAverages::total() const noexcept {
  return state_->total;
}

void DelayedAverages::save(torch::serialize::OutputArchive& archive) {
  wait_all(state_->works);
  archive.write("pending", c10::IValue(state_->is_pending));
  kolo::save(state_->flats[state_->current], archive, "averages");
}

void DelayedAverages::load(torch::serialize::InputArchive& archive) {
  load_or_refuse("DelayedAverages", [&] {
    wait_all(state_->works);
    kolo::load(state_->flats[state_->current], archive, "averages");
    c10::IValue is_pending;
    archive.read("pending", is_pending);
    state_->is_pending = is_pending.toBool();
  });
}

}  // namespace kolo
