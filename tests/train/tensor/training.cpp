#include "train/tensor/training.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::tensor {
namespace {

constexpr int kSteps = 20;

struct Trained {
  at::Tensor output, input_gradient;
  Whole parameters;
};

struct Steps {
  std::vector<at::Tensor> parameters;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::function<at::Tensor()> penalty;
};

/// The last step's output and gradient of the input.
Trained train(const Steps& model, const at::Tensor& first_input) {
  torch::optim::SGD optimizer(model.parameters, torch::optim::SGDOptions(0.05).momentum(0.9));
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor x = (first_input * (1 + 0.1 * step)).detach();
    if (x.is_floating_point()) x.set_requires_grad(true);
    const at::Tensor y = model.forward(x);
    const at::Tensor target = waves(y.sizes().vec(), step).to(y.scalar_type());
    at::Tensor loss = squares(y, target);
    if (model.penalty) loss = loss + model.penalty();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    trained.output = y.detach();
    trained.input_gradient = x.grad();
  }
  return trained;
}

Trained train_plain(const Comparison& comparison, const Whole& initial) {
  Whole parameters;
  std::vector<at::Tensor> list;
  for (const auto& [name, value] : initial) {
    parameters[name] = value.clone().set_requires_grad(true);
    list.push_back(parameters[name]);
  }
  Trained trained = train({list, [&](const at::Tensor& x) { return comparison.plain(parameters, x); }, {}},
                          comparison.input.to(comparison.type));
  for (const auto& [name, value] : parameters) trained.parameters[name] = value.detach();
  return trained;
}

/// Whether the parameter is in a submodule that no other rank has.
bool is_of_one_rank(const std::string& name, const torch::nn::Module& module) {
  const auto* const divided = dynamic_cast<const TensorParallelModule*>(&module);
  return divided && divided->owns_submodules() && name.find('.') != std::string::npos;
}

void expect_equal_gradients(const torch::nn::Module& module, Communicator& group) {
  for (const PlacedParameter& parameter : placed_parameters(module)) {
    if (parameter.region.cut || is_of_one_rank(parameter.name, module)) continue;
    ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    EXPECT_TRUE(same_everywhere(group, bits({parameter.tensor.grad().contiguous()}))) << parameter.name;
  }
}

void expect_close(const Trained& trained, const Trained& plain, double tolerance) {
  EXPECT_LT(relative_distance(trained.output, plain.output), tolerance) << "output";
  if (plain.input_gradient.defined()) {
    EXPECT_LT(relative_distance(trained.input_gradient, plain.input_gradient), tolerance) << "gradient";
  }
  ASSERT_EQ(trained.parameters.size(), plain.parameters.size());
  for (const auto& [name, value] : plain.parameters) {
    ASSERT_TRUE(trained.parameters.contains(name)) << name;
    EXPECT_LT(relative_distance(trained.parameters.at(name), value), tolerance) << name;
  }
}

}  // namespace

at::Generator seeded(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

at::Tensor waves(std::vector<std::int64_t> sizes, double seed) {
  const std::int64_t elements =
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  return at::sin(at::arange(elements, at::kDouble).mul(0.7391).add(seed)).reshape(sizes);
}

double relative_distance(const at::Tensor& one, const at::Tensor& other) {
  if (one.sizes() != other.sizes()) return std::numeric_limits<double>::infinity();
  if (one.numel() == 0) return 0;
  const at::Tensor a = one.to(at::kDouble), b = other.to(at::kDouble);
  const double largest = b.abs().max().item().toDouble();
  return (a - b).abs().max().item().toDouble() / std::max(largest, 1e-3);
}

Whole whole_of(const torch::nn::Module& module, const Communicator& group) {
  return gather_whole_parameters(PlacedModel(placed_parameters(module), group));
}

void expect_as_one_process(const Comparison& comparison) {
  at::set_num_threads(1);
  std::mutex mutex;
  std::optional<Trained> plain;
  std::map<int, std::vector<Trained>> by_ranks;
  run_all(std::ranges::max(comparison.ranks), [&](Communicator& all) {
    for (const int ranks : comparison.ranks) {
      Communicator group = all.split(all.rank() < ranks ? 0 : -1);
      if (!group.valid()) continue;
      Built built = comparison.build(group);
      built.module->to(comparison.type);
      const Whole initial = whole_of(*built.module, group);
      {
        const std::lock_guard lock(mutex);
        if (!plain) plain = train_plain(comparison, initial);
      }
      Trained trained = train({built.module->parameters(), built.forward, built.penalty},
                              comparison.input.to(comparison.type));
      expect_equal_gradients(*built.module, group);
      trained.parameters = whole_of(*built.module, group);
      const std::lock_guard lock(mutex);
      by_ranks[ranks].push_back(std::move(trained));
    }
  });
  for (const auto& [ranks, each] : by_ranks) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    EXPECT_EQ(each.size(), static_cast<std::size_t>(ranks));
    for (const Trained& trained : each) expect_close(trained, *plain, comparison.tolerance);
  }
}

void expect_refusal(Communicator& communicator, const std::string& said,
                    const std::function<void(Communicator&)>& body) {
  try {
    body(communicator);
    ADD_FAILURE() << "rank " << communicator.rank() << " threw nothing, not '" << said << '\'';
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(said), std::string::npos)
        << '\'' << error.what() << "' without '" << said << '\'';
  }
}

}  // namespace kolo::test::tensor
