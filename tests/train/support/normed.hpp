// A small model that is normalized over the samples of all ranks.
#pragma once

#include "train/support/models.hpp"

#include "kolo/train/sync_batch_norm.hpp"

namespace kolo::test {

struct NormedImpl : torch::nn::Module {
  NormedImpl(std::int64_t inputs, std::int64_t outputs, const Communicator& communicator)
      : first(inputs, 3), norm(torch::nn::BatchNormOptions(3), communicator), last(3, outputs) {
    register_module("first", first);
    register_module("norm", norm);
    register_module("last", last);
    fill(*this, 1);
  }
  at::Tensor forward(const at::Tensor& x) { return last(norm(first(x))); }

  torch::nn::Linear first;
  SyncBatchNorm norm;
  torch::nn::Linear last;
};
TORCH_MODULE(Normed);

}  // namespace kolo::test
