#include "kolo/train/local.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/util/StringUtil.h>

#include <chrono>
#include <cmath>
#include <iomanip>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "local/plan.hpp"
#include "ranks/agreement.hpp"
#include "ranks/span.hpp"

namespace kolo {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kModelAverager = "ModelAverager";

/// SGD with momentum over averages of models.
class OuterOptimizer {
 public:
  /// The first step begins from the parameters as they are now.
  OuterOptimizer(const OuterOptimizerOptions& options, std::span<const NamedTensor> parameters)
      : options_(options), model_(flats_by_type(parameters)) {
    if (options.momentum > 0) momentum_ = flats_by_type(parameters);
    pack(parameters, model_);
  }

  /// The next step begins from `averages`.
  void begin_from(std::span<const FlatTensors> averages) {
    for (std::size_t i = 0; i < averages.size(); ++i) model_[i].flat().copy_(averages[i].flat());
  }
  /// Puts what the step makes of the averages in their place. Allocates no values.
  void step(std::span<const FlatTensors> averages) {
    const c10::NoGradGuard no_grad;
    for (std::size_t i = 0; i < averages.size(); ++i) {
      const at::Tensor model = model_[i].flat(), update = averages[i].flat();
      update.neg_().add_(model);  // the outer gradient
      if (!momentum_.empty()) {
        const at::Tensor momentum = momentum_[i].flat();
        momentum.mul_(options_.momentum).add_(update);
        options_.nesterov ? update.add_(momentum, options_.momentum) : update.copy_(momentum);
      }
      model.sub_(update, options_.learning_rate);
      update.copy_(model);
    }
  }

  void save(torch::serialize::OutputArchive& archive) const {
    kolo::save(model_, archive, "outer model");
    kolo::save(momentum_, archive, "outer momentum");
  }
  void load(torch::serialize::InputArchive& archive) {
    kolo::load(model_, archive, "outer model");
    kolo::load(momentum_, archive, "outer momentum");
  }

 private:
  OuterOptimizerOptions options_;
  std::vector<FlatTensors> model_;     ///< after the last step
  std::vector<FlatTensors> momentum_;  ///< none where that is 0
};

std::string text_of(const ModelAveragerOptions& options) {
  std::ostringstream text;
  text << std::setprecision(15);  // numbers that differ look different, and 0.7 looks like 0.7
  text << "the options period " << options.period << ", start_after_steps " << options.start_after_steps
       << ", ";
  if (!options.outer) return text.str() + "no outer optimizer";
  text << "outer learning_rate " << options.outer->learning_rate << ", momentum " << options.outer->momentum
       << (options.outer->nesterov ? ", nesterov" : "");
  return text.str();
}

void require_valid(const ModelAveragerOptions& options) {
  if (options.period == 0) throw InvalidArgumentError("a period of 0 steps: it is 1 or more", {});
  if (!options.outer) return;
  const double rate = options.outer->learning_rate, momentum = options.outer->momentum;
  if (!(rate > 0) || !std::isfinite(rate))
    throw InvalidArgumentError(c10::str("an outer learning_rate of ", rate, " is not above 0 and finite"),
                               {});
  if (!(momentum >= 0 && momentum < 1))
    throw InvalidArgumentError(c10::str("an outer momentum of ", momentum, " is not from 0 to below 1"), {});
}

/// The first tensor that is not finite, in words; empty if all are.
std::string not_finite_in(const train::Model& model) {
  for (const auto* const tensors : {&model.trainable, &model.buffers}) {
    for (const NamedTensor& named : *tensors) {
      if (!at::isfinite(named.tensor).all().item().toBool()) return '\'' + named.name + "' is not finite";
    }
  }
  return {};
}

}  // namespace

struct ModelAverager::State {
  State(const torch::nn::Module& module, Communicator& communicator, const ModelAveragerOptions& options_)
      : options(options_),
        own(communicator.split(0)),
        model(train::agree_on_model(kModelAverager, module, own, true, text_of(options),
                                    [&](const train::Model&) { require_valid(options); })),
        parameters(flats_by_type(model.trainable)),
        buffers(flats_by_type(model.buffers)) {
    if (options.outer) outer.emplace(*options.outer, model.trainable);
  }

  void average() {
    const train::Span span(own, "average of models");
    train::pack(model, model.trainable, parameters, own);
    train::pack(model, model.buffers, buffers, own);
    const CallOptions as_it_is{.wire = Wire::native};  // KOLO_WIRE is meant for gradients
    std::vector<TensorWork> first = train::start_averages(parameters, own, as_it_is),
                            then = train::start_averages(buffers, own, as_it_is);
    wait_all(first);
    wait_all(then);
    if (!are_finite(parameters) || !are_finite(buffers)) refuse();  // the same bits on all ranks
    if (outer && total.steps == options.start_after_steps) {
      outer->begin_from(parameters);
    } else if (outer) {
      outer->step(parameters);
    }
    unpack(parameters, model.trainable);
    unpack(buffers, model.buffers);
    total.bytes += train::bytes_of(parameters) + train::bytes_of(buffers);
    ++total.all_reduces;
  }

  [[noreturn]] void refuse() {
    const auto complaint = train::first_complaint(own, not_finite_in(model));
    throw Error(std::string(kModelAverager) + ": the average in step " + std::to_string(total.steps) +
                    " is not finite: " +
                    (complaint ? "rank " + std::to_string(complaint->rank) + ": " + complaint->text
                               : "the sum of the ranks' numbers is too large"),
                {.peer = complaint ? complaint->rank : -1, .collective = kModelAverager});
  }

  ModelAveragerOptions options;
  Communicator own;  ///< so calls on the caller's cannot come between those of a step
  train::Model model;
  std::vector<FlatTensors> parameters;
  std::vector<FlatTensors> buffers;
  std::optional<OuterOptimizer> outer;
  CommunicationStatistics total;
};

ModelAverager::ModelAverager(const torch::nn::Module& module, Communicator communicator,
                             const ModelAveragerOptions& options) {
  if (!communicator.valid()) throw InvalidArgumentError("the communicator is not valid", {});
  state_ = std::make_unique<State>(module, communicator, options);
}

ModelAverager::~ModelAverager() = default;

bool ModelAverager::step() {
  State& state = *state_;
  const std::uint64_t steps = ++state.total.steps, start = state.options.start_after_steps;
  if (steps < start || (steps - start) % state.options.period != 0) return false;
  const auto begin = Clock::now();
  state.average();
  state.total.exposed += Clock::now() - begin;
  return true;
}

bool ModelAverager::is_local() const noexcept {
  return state_->total.steps >= state_->options.start_after_steps;
}

const CommunicationStatistics& ModelAverager::total() const noexcept {
  return state_->total;
}

void ModelAverager::save(torch::serialize::OutputArchive& archive) const {
  archive.write("steps", c10::IValue(static_cast<std::int64_t>(state_->total.steps)));
  archive.write("options", c10::IValue(text_of(state_->options)));
  if (state_->outer) state_->outer->save(archive);
}

void ModelAverager::load(torch::serialize::InputArchive& archive) {
  load_or_refuse("ModelAverager", [&] {
    c10::IValue steps, options;
    archive.read("options", options);
    if (options.toStringRef() != text_of(state_->options)) {
      throw std::runtime_error("it was saved with " + options.toStringRef() + ", and there are " +
                               text_of(state_->options));
    }
    archive.read("steps", steps);
    if (state_->outer) state_->outer->load(archive);
    state_->total.steps = static_cast<std::uint64_t>(steps.toInt());
  });
}

struct AveragedModel::State {
  State(const torch::nn::Module& module, Communicator communicator)
      : model(train::agree_on_model("AveragedModel", module, communicator, false)), tensors(model.trainable) {
    tensors.insert(tensors.end(), model.buffers.begin(), model.buffers.end());
    own = flats_by_type(tensors);
    const train::Span span(communicator, "average of models");
    const std::vector<FlatTensors> averages = flats_by_type(tensors);
    train::pack(model, tensors, own, communicator);
    train::pack(model, tensors, averages, communicator);
    // KOLO_WIRE is meant for gradients.
    std::vector<TensorWork> works = train::start_averages(averages, communicator, {.wire = Wire::native});
    wait_all(works);
    unpack(averages, tensors);
  }

  train::Model model;
  train::NamedTensors tensors;
  std::vector<FlatTensors> own;  ///< this rank's values
};

AveragedModel::AveragedModel(const torch::nn::Module& module, const Communicator& communicator) {
  if (!communicator.valid()) throw InvalidArgumentError("the communicator is not valid", {});
  state_ = std::make_unique<State>(module, communicator);
}

AveragedModel::~AveragedModel() {
  unpack(state_->own, state_->tensors);
}

}  // namespace kolo
