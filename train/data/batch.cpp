#include "data/batch.hpp"

#include "kolo/error.hpp"

namespace kolo::train {

std::int64_t samples_of(const Batch& batch) {
  if (batch.empty()) throw InvalidArgumentError("a batch has no tensors", {});
  for (const at::Tensor& tensor : batch) {
    if (!tensor.defined() || tensor.dim() < 1 || tensor.size(0) != batch[0].size(0))
      throw InvalidArgumentError("the tensors of a batch differ in their first dimension", {});
  }
  return batch[0].size(0);
}

}  // namespace kolo::train
