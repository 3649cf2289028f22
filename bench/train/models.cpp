#include "train/models.hpp"

#include <torch/nn/functional.h>
#include <torch/nn/modules.h>

#include <stdexcept>

namespace kolo::bench {
namespace {

using torch::nn::Linear;

Workload from_sequential(torch::nn::Sequential net, at::Tensor input, std::int64_t classes) {
  const at::Tensor labels = at::randint(classes, {input.size(0)}, at::kLong);
  return {net.ptr(), [net, input, labels]() mutable {
            return torch::nn::functional::cross_entropy(net->forward(input), labels);
          }};
}

Workload cnn(std::int64_t batch) {
  const auto conv = [](int from, int to) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1));
  };
  return from_sequential(
      torch::nn::Sequential(conv(1, 16), torch::nn::ReLU(), torch::nn::MaxPool2d(2), conv(16, 32),
                            torch::nn::ReLU(), torch::nn::MaxPool2d(2), torch::nn::Flatten(),
                            Linear(1568, 64), torch::nn::ReLU(), Linear(64, 10)),
      at::rand({batch, 1, 28, 28}), 10);
}

Workload mlp(std::int64_t batch) {
  return from_sequential(
      torch::nn::Sequential(Linear(1024, 3072), torch::nn::ReLU(), Linear(3072, 3072), torch::nn::ReLU(),
                            Linear(3072, 3072), torch::nn::ReLU(), Linear(3072, 1024)),
      at::rand({batch, 1024}), 1024);
}

Workload wide(std::int64_t batch) {
  return from_sequential(
      torch::nn::Sequential(Linear(20'000, 1024), torch::nn::ReLU(), Linear(1024, 1024), torch::nn::ReLU(),
                            Linear(1024, 1024), torch::nn::ReLU(), Linear(1024, 1024)),
      at::rand({batch, 20'000}), 1024);
}

Workload transformer(std::int64_t batch) {
  constexpr std::int64_t kTokens = 64, kWidth = 512;
  torch::nn::TransformerEncoder net(
      torch::nn::TransformerEncoderLayer(
          torch::nn::TransformerEncoderLayerOptions(kWidth, 8).dim_feedforward(2048).dropout(0)),
      8);
  const at::Tensor input = at::rand({kTokens, batch, kWidth}), target = at::rand({kTokens, batch, kWidth});
  return {net.ptr(),
          [net, input, target]() mutable { return (net->forward(input) - target).square().mean(); }};
}

struct Named {
  const char* name;
  Workload (*make)(std::int64_t batch);
};
constexpr Named kWorkloads[] = {{"cnn", cnn}, {"mlp", mlp}, {"transformer", transformer}, {"wide", wide}};

}  // namespace

Workload make_workload(const std::string& name, std::int64_t batch) {
  std::string known;
  for (const auto& [known_name, make] : kWorkloads) {
    if (name == known_name) return make(batch);
    known += std::string(known.empty() ? "" : ", ") + known_name;
  }
  throw std::invalid_argument("there is no model '" + name + "', only " + known);
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Named& workload : kWorkloads) names.emplace_back(workload.name);
  return names;
}

}  // namespace kolo::bench
