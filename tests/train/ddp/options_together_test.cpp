// Every option with every other one: training goes the same way, or construction refuses.
#include "train/support/models.hpp"

#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/optim.hpp"
#include "kolo/train/recompute.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::ddp {
namespace {

using Features = std::set<std::string>;

const std::vector<std::string> kFeatures = {"hook",    "wire",       "sparse",     "gather",
                                            "no_sync", "unused",     "static",     "join",
                                            "clip",    "loss_scale", "checkpoint", "forward"};

/// Those that change what is learned; the others only change how.
Features that_matter(const Features& features) {
  Features result;
  for (const char* name : {"join", "clip"}) {
    if (features.contains(name)) result.insert(name);
  }
  return result;
}

/// A table, a part that may be computed anew, and a layer that may be left out.
struct MixedImpl : torch::nn::Module {
  explicit MixedImpl(Features features_)
      : features(std::move(features_)),
        table(torch::nn::EmbeddingOptions(30, 6).sparse(features.contains("sparse") ||
                                                        features.contains("gather"))),
        first(6, 6),
        spare(6, 1),
        last(6, 4) {
    register_module("table", table);
    register_module("first", first);
    register_module("spare", spare);
    register_module("last", last);
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& words) {
    const at::Tensor x = table(words);
    const at::Tensor hidden = features.contains("checkpoint") ? recompute(first, x) : first(x);
    const at::Tensor result = last(at::tanh(hidden));
    return features.contains("unused") ? result : result + 0 * spare(x);
  }

  Features features;
  torch::nn::Embedding table;
  torch::nn::Linear first, spare, last;
};
TORCH_MODULE(Mixed);

DistributedDataParallelOptions options_of(const Features& features) {
  auto options = small_buckets();
  if (features.contains("hook")) options.hook = make_gradient_hook("bfloat16");
  if (features.contains("wire")) options.wire = Wire::bfloat16;
  if (features.contains("gather")) options.sparse_method = SparseMethod::all_gather;
  options.find_unused_parameters = features.contains("unused");
  options.static_graph = features.contains("static");
  if (features.contains("forward")) {
    options.overlap_forward = [](const std::vector<at::Tensor>& parameters) {
      return std::make_unique<torch::optim::SGD>(parameters, 0.2);
    };
  }
  return options;
}

/// Rank 0's parameters after training; nothing where the options exclude each other.
std::optional<std::vector<at::Tensor>> train_with(const Features& features) {
  std::vector<at::Tensor> trained;
  bool is_refused = false;
  run_all(2, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const float scale = features.contains("loss_scale") ? 256.0f : 1.0f;
    const int passes = features.contains("no_sync") ? 2 : 1;
    const bool makes_steps = features.contains("forward");
    const int steps = features.contains("join") && rank == 1 ? 2 : 4;
    std::optional<DistributedDataParallel<MixedImpl>> model;
    try {
      Mixed mixed(features);
      mixed->to(device());
      model.emplace(mixed, communicator, options_of(features));
      model->set_loss_scale(scale);
      if (makes_steps && features.contains("clip")) clip_gradients(model->parameters(), 0.1);
    } catch (const InvalidArgumentError&) {
      is_refused = true;
      return;
    }
    torch::optim::SGD optimizer(model->parameters(), 0.2);
    const auto update = [&] {
      for (const at::Tensor& parameter : model->parameters()) {
        if (parameter.grad().defined()) parameter.mutable_grad().div_(scale);
      }
      if (features.contains("clip")) clip_gradients(model->parameters(), 0.1);
      optimizer.step();
    };
    std::optional<DistributedDataParallelBase::Join> join;
    if (features.contains("join")) join.emplace(*model, JoinMode::divide_by_active);
    for (int step = 0; step < steps; ++step) {
      const at::Tensor words =
          at::arange(8, at::kLong).mul(3 + step).add(5 * rank).remainder(30).to(device());
      const at::Tensor wanted = numbers(8, 4, step + rank).to(device());
      if (join) join->step(8);
      optimizer.zero_grad();
      const auto backward = [&](int pass) {
        const std::int64_t size = 8 / passes;
        const auto part = [&](const at::Tensor& all) { return all.slice(0, pass * size, (pass + 1) * size); };
        const at::Tensor result = (*model)(part(words));
        // The graph of what is computed anew does not show its parameters.
        if (features.contains("checkpoint")) model->prepare_backward({}, false);
        squares(result, part(wanted)).mul(scale / static_cast<float>(passes)).backward();
      };
      for (int pass = 0; pass + 1 < passes; ++pass) {
        const auto guard = model->no_sync();
        backward(pass);
      }
      backward(passes - 1);
      if (!makes_steps) update();
    }
    if (join) join->finish(makes_steps ? std::function<void()>() : update);
    EXPECT_TRUE(same_everywhere(communicator, bits(model->parameters())));
    if (rank != 0) return;
    for (const at::Tensor& parameter : model->parameters()) trained.push_back(parameter.detach().cpu());
  });
  if (is_refused) return {};
  return trained;
}

std::string name_of(const Features& features) {
  std::string name;
  for (const std::string& feature : features) name += feature + ' ';
  return name;
}

TEST(OptionsTogether, EachPairTrainsAlikeOrIsRefused) {
  at::set_num_threads(1);
  const std::set<Features> refused = {{"hook", "wire"},         {"hook", "unused"},    {"forward", "hook"},
                                      {"static", "unused"},     {"forward", "static"}, {"forward", "sparse"},
                                      {"forward", "gather"},    {"forward", "unused"}, {"forward", "clip"},
                                      {"forward", "loss_scale"}};
  std::map<Features, std::vector<at::Tensor>> plain;
  for (const std::string& one : kFeatures) {
    for (const std::string& other : kFeatures) {
      if (other < one) continue;
      const Features features{one, other};
      const auto trained = train_with(features);
      EXPECT_EQ(!trained.has_value(), refused.contains(features)) << name_of(features);
      if (!trained) continue;
      std::vector<at::Tensor>& expected = plain[that_matter(features)];
      if (expected.empty()) expected = train_with(that_matter(features)).value();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::allclose((*trained)[i], expected[i], 1e-2, 1e-3))
            << name_of(features) << "parameter " << i;
      }
    }
  }
}

}  // namespace
}  // namespace kolo::test::ddp
