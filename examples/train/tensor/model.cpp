#include "tensor/model.hpp"

#include <torch/nn/functional/loss.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "kolo/train/group_functions.hpp"
#include "kolo/train/slice.hpp"
#include "tensor/layers.hpp"

namespace tensor {

ModelImpl::ModelImpl(const Options& options, kolo::Communicator group)
    : options_(options), group_(std::move(group)) {
  if (options.width % options.heads != 0) {
    throw std::invalid_argument("--width " + std::to_string(options.width) + " cannot be shared by " +
                                std::to_string(options.heads) + " heads");
  }
  if (divides_sequences_only() && options.context % group_.size() != 0) {
    throw std::invalid_argument("--context " + std::to_string(options.context) + " cannot be shared by " +
                                std::to_string(group_.size()) + " ranks");
  }
  register_module("layers", layers);
  const auto block = [](std::int64_t i) { return "block_" + std::to_string(i + 1); };
  if (divides_sequences_only()) {
    layers->push_back("embedding", SliceEmbedding(options, group_));
    for (std::int64_t i = 0; i < options.layers; ++i)
      layers->push_back(block(i), SliceBlock(options, group_));
    layers->push_back("head", SliceHead(options));
    return;
  }
  layers->push_back("embedding", DividedEmbedding(options, group_));
  for (std::int64_t i = 0; i < options.layers; ++i) {
    if (options.mode != "experts") {
      if (options.mode == "branches") {
        layers->push_back(block(i), BranchBlock(options, group_));
      } else {
        layers->push_back(block(i), DividedBlock(options, group_));
      }
      continue;
    }
    const ExpertBlock layer(options, group_);
    experts_.push_back(layer->experts);
    layers->push_back(block(i), layer);
  }
  layers->push_back("head", DividedHead(options, group_));
}

at::Tensor ModelImpl::forward(const at::Tensor& bytes) {
  return layers->forward(bytes);
}

at::Tensor ModelImpl::loss(const at::Tensor& scores, const at::Tensor& targets) const {
  if (!divides_sequences_only()) {
    return kolo::vocabulary_parallel_cross_entropy(scores, targets, kBytes, group_);
  }
  const kolo::Slice own = kolo::slice_of(targets.size(1), group_.rank(), group_.size());
  return torch::nn::functional::cross_entropy(scores.reshape({-1, kBytes}),
                                              targets.narrow(1, own.begin, own.length).reshape({-1}));
}

at::Tensor ModelImpl::balance_loss() const {
  at::Tensor sum;
  for (const auto& layer : experts_) {
    const at::Tensor one = layer->balance_loss();
    sum = sum.defined() ? sum + one : one;
  }
  return sum;
}

bool ModelImpl::divides_sequences_only() const {
  return options_.mode == "ulysses" || options_.mode == "ring";
}

}  // namespace tensor
