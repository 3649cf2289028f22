#include "kolo/train/parallel_model.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "kolo/error.hpp"

namespace kolo {
namespace {

std::int64_t samples_of(const Batch& batch) {
  if (batch.empty()) throw InvalidArgumentError("a batch has no tensors", {});
  const auto is_alike = [&](const at::Tensor& tensor) {
    return tensor.defined() && tensor.dim() > 0 && tensor.size(0) == batch[0].size(0);
  };
  if (!std::ranges::all_of(batch, is_alike))
    throw InvalidArgumentError("the tensors of a batch differ in their first dimension, the samples", {});
  return batch[0].size(0);
}

}  // namespace

std::int64_t samples_per_part(std::int64_t batch, int ranks, std::int64_t parts) {
  if (batch >= 1 && ranks >= 1 && parts >= 1 && batch % ranks == 0 && batch / ranks % parts == 0)
    return batch / ranks / parts;
  throw InvalidArgumentError("a batch of " + std::to_string(batch) + " cannot be " +
                                 (ranks == 1 ? "" : "shared by " + std::to_string(ranks) + " ranks and ") +
                                 "accumulated in " + std::to_string(parts) +
                                 (parts == 1 ? " part" : " equal parts"),
                             {});
}

at::Tensor accumulate(ParallelModel& model, const Batch& batch, std::int64_t parts,
                      const std::function<at::Tensor(const Batch& part)>& loss_of) {
  const std::int64_t samples = samples_per_part(samples_of(batch), 1, parts);
  at::Tensor total;
  for (std::int64_t i = 0; i < parts; ++i) {
    std::optional<ParallelModel::NoSync> local;
    if (i + 1 < parts) local.emplace(model);
    Batch part;
    for (const at::Tensor& tensor : batch) part.push_back(tensor.narrow(0, i * samples, samples));
    at::Tensor loss = loss_of(part);
    if (!loss.defined() || loss.numel() != 1)
      throw InvalidArgumentError(
          "the loss of a part to accumulate is no scalar: take the mean over its samples", {});
    if (parts > 1) loss = loss / parts;
    loss.backward();
    total = i == 0 ? loss.detach() : total + loss.detach();
  }
  return total;
}

}  // namespace kolo
