#include "train/models.hpp"

#include <torch/nn/functional.h>
#include <torch/nn/modules.h>

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

/// Predicts each token from the tokens before it: 512 tokens, learned positions, five layers.
class LanguageModel : public torch::nn::Module {
 public:
  static constexpr std::int64_t kVocabulary = 512, kTokens = 64, kWidth = 128;

  LanguageModel() {
    words_ = register_module("words", torch::nn::Embedding(kVocabulary, kWidth));
    positions_ = register_parameter("positions", 0.02 * at::randn({kTokens, 1, kWidth}));
    layers_ = register_module(
        "layers",
        torch::nn::TransformerEncoder(
            torch::nn::TransformerEncoderLayer(
                torch::nn::TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(4 * kWidth).dropout(0)),
            5));
    output_ = register_module("output", Linear(kWidth, kVocabulary));
  }

  /// Tokens of {kTokens, batch}; returns scores of {kTokens, batch, kVocabulary}.
  at::Tensor forward(const at::Tensor& tokens) {
    return output_(layers_(words_(tokens) + positions_, earlier_));
  }

 private:
  torch::nn::Embedding words_{nullptr};
  at::Tensor positions_;
  torch::nn::TransformerEncoder layers_{nullptr};
  Linear output_{nullptr};
  at::Tensor earlier_ = torch::nn::TransformerImpl::generate_square_subsequent_mask(kTokens);
};

Workload language_model(std::int64_t batch) {
  auto net = std::make_shared<LanguageModel>();
  const auto draw = [batch] {
    return at::randint(LanguageModel::kVocabulary, {LanguageModel::kTokens, batch}, at::kLong);
  };
  const at::Tensor tokens = draw(), next = draw().flatten();
  return {net,
          [net, tokens, next] {
            return torch::nn::functional::cross_entropy(net->forward(tokens).flatten(0, 1), next);
          },
          tokens.numel()};
}

}  // namespace

const std::map<std::string, Workload (*)(std::int64_t)>& workloads() {
  static const std::map<std::string, Workload (*)(std::int64_t)> all = {
      {"cnn", cnn},   {"language_model", language_model}, {"mlp", mlp}, {"transformer", transformer},
      {"wide", wide},
  };
  return all;
}

}  // namespace kolo::bench
