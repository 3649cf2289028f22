#include "train/sharded_replay.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "train/require_average.hpp"

namespace kolo::bench {
namespace {

/// "layers.0" of "layers.0.norm1.weight", because a number ends a layer's name; "words" of "words.weight".
std::string unit_of(const std::string& parameter) {
  std::string unit;
  for (std::size_t begin = 0, end; begin < parameter.size(); begin = end + 1) {
    end = std::min(parameter.find('.', begin), parameter.size());
    const std::string_view part = std::string_view(parameter).substr(begin, end - begin);
    const bool is_number = std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) unit = parameter.substr(0, end);
  }
  if (unit.empty()) unit = parameter.substr(0, std::min(parameter.rfind('.'), parameter.size()));
  std::ranges::replace(unit, '.', '_');
  return unit;
}

}  // namespace

class ShardedReplay::Model : public torch::nn::Module {
 public:
  explicit Model(const Trace& trace) {
    for (const TracedParameter& parameter : trace.parameters) {
      const std::string name = unit_of(parameter.name);
      auto unit = std::ranges::find(units_, name, &Unit::name);
      if (unit == units_.end()) {
        units_.push_back({name, register_module(name, std::make_shared<torch::nn::Module>()), {}, {}, 0});
        unit = units_.end() - 1;
      }
      const at::Tensor tensor = unit->module->register_parameter(
          "p" + std::to_string(unit->parameters.size()), at::zeros(parameter.shape));
      unit->parameters.push_back(tensor);
      unit->gradients.push_back(at::zeros_like(tensor));
    }
    set_trace(trace);
    for (std::size_t i = 0; i < units_.size(); ++i) order_.push_back(i);
    // Forward runs in the reverse order of backward.
    std::ranges::stable_sort(
        order_, [this](std::size_t a, std::size_t b) { return units_[a].ready > units_[b].ready; });
  }

  /// The times of further steps.
  void set_trace(const Trace& trace) {
    forward_ = trace.forward;
    backward_ = trace.backward;
    for (Unit& unit : units_) unit.ready = 0;
    for (const TracedParameter& parameter : trace.parameters) {
      Unit& unit = *std::ranges::find(units_, unit_of(parameter.name), &Unit::name);
      unit.ready = std::max(unit.ready, parameter.ready);
    }
  }

  /// Sets the value of all elements of all gradients in the next backward().
  void set_gradients(float value) {
    for (Unit& unit : units_) {
      for (at::Tensor& gradient : unit.gradients) gradient.fill_(value);
    }
  }

  at::Tensor forward() {
    at::Tensor x = at::zeros({1});
    in_backward_ = false;
    const auto begin = Clock::now();
    Clock::duration late{};
    for (std::size_t place = 0; place < order_.size(); ++place) {
      Unit& unit = units_[order_[place]];
      const auto before = Clock::now();
      use(unit);
      late += Clock::now() - before;
      for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
        x = Wait::apply(x, unit.parameters[i], reinterpret_cast<std::int64_t>(this),
                        static_cast<std::int64_t>(order_[place]), static_cast<std::int64_t>(i));
      }
      // A layer has the same share of forward as of backward.
      const double next = place + 1 < order_.size() ? units_[order_[place + 1]].ready : 0;
      const double share = backward_ > 0 ? 1 - next / backward_ : 1;
      sleep_until(begin + late + from_seconds(forward_ * std::max(0.0, share)));
    }
    return x;
  }

 private:
  struct Unit {
    std::string name;
    std::shared_ptr<torch::nn::Module> module;
    std::vector<at::Tensor> parameters, gradients;
    double ready;
  };

  /// Forwards `x`. In backward it uses the unit's parameters, sleeps, and returns one parameter's gradient.
  class Wait : public torch::autograd::Function<Wait> {
   public:
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                              const at::Tensor& parameter, std::int64_t model, std::int64_t unit,
                              std::int64_t index) {
      static_cast<void>(parameter);
      context->saved_data["model"] = model;
      context->saved_data["unit"] = unit;
      context->saved_data["index"] = index;
      return x.clone();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
      auto& model = *reinterpret_cast<Model*>(context->saved_data["model"].toInt());
      Unit& unit = model.units_[static_cast<std::size_t>(context->saved_data["unit"].toInt())];
      const auto index = static_cast<std::size_t>(context->saved_data["index"].toInt());
      if (index + 1 == unit.parameters.size()) model.compute_backward(unit);
      // A new tensor, as a computed one.
      return {gradients[0], unit.gradients[index].detach(), at::Tensor(), at::Tensor(), at::Tensor()};
    }
  };

  /// The first operation on a parameter waits for the gather of its unit.
  static void use(const Unit& unit) {
    const c10::NoGradGuard no_grad;
    for (const at::Tensor& parameter : unit.parameters) static_cast<void>(parameter.detach());
  }

  /// The time that backward waits for parameters is added to its computation.
  void compute_backward(const Unit& unit) {
    if (!std::exchange(in_backward_, true)) {
      backward_begin_ = Clock::now();
      late_ = {};
    }
    const auto before = Clock::now();
    use(unit);
    late_ += Clock::now() - before;
    sleep_until(backward_begin_ + late_ + from_seconds(unit.ready));
  }

  double forward_ = 0, backward_ = 0;
  std::vector<Unit> units_;
  std::vector<std::size_t> order_;  ///< of forward
  Clock::time_point backward_begin_;
  Clock::duration late_{};
  bool in_backward_ = false;
};

struct ShardedReplay::Parallel : ShardedDataParallel<Model> {
  using ShardedDataParallel<Model>::ShardedDataParallel;
};

ShardedReplay::ShardedReplay(const Trace& trace, Communicator communicator, Shard shard)
    : communicator_(std::move(communicator)),
      model_(std::make_shared<Model>(trace)),
      parallel_(
          std::make_unique<Parallel>(model_, communicator_, ShardedDataParallelOptions{.shard = shard})) {}

ShardedReplay::~ShardedReplay() = default;

StepTimes ShardedReplay::run(const Trace& trace, int steps, int left_out) {
  model_->set_trace(trace);
  const auto shards = parallel_->parameters();
  StepClock clock(left_out);
  for (int step = 0; step < left_out + steps; ++step) {
    model_->set_gradients(static_cast<float>(communicator_.rank() + 1 + step % 8));
    const float expected = static_cast<float>(communicator_.size() + 1) / 2 + static_cast<float>(step % 8);
    for (const at::Tensor& shard : shards) shard.mutable_grad() = at::Tensor();
    communicator_.barrier();
    const auto exposed = parallel_->total().exposed;
    clock.begin();
    (*parallel_)().backward();
    sleep_for(trace.optimizer / communicator_.size());
    clock.end(parallel_->total().exposed - exposed);
    for (const at::Tensor& shard : shards) {
      if (shard.numel() == 0) continue;
      require_average(shard.grad().data_ptr(), static_cast<std::size_t>(shard.numel()), expected);
    }
  }
  return clock.take();
}

}  // namespace kolo::bench
