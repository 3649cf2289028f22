// Training in float64 whose data depends on nothing but step and rank, and what all ranks' models hold.
#pragma once

#include "train/support/models.hpp"

#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::test::local {

inline at::Tensor input_of(int step, int rank) {
  return numbers(3, 8, 100 * step + rank).to(at::kDouble);
}
inline at::Tensor target_of(int rank) {
  return numbers(3, 4, 500 + rank).to(at::kDouble);
}

/// A Chain in float64. Ranks that give themselves as `seed` begin with different ones.
inline Chain chain64(double seed) {
  Chain chain(seed);
  chain->to(at::kDouble);
  return chain;
}

/// All parameters as one vector, a copy.
inline at::Tensor flat_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& parameter : parameters) parts.push_back(parameter.detach().flatten());
  return at::cat(parts);
}

/// Collective: the vectors of all ranks, a row each.
inline at::Tensor everyones(Communicator& communicator, const at::Tensor& mine) {
  const at::Tensor all = at::empty({communicator.size(), mine.numel()}, mine.options());
  communicator.all_gather(buffer_of(mine.contiguous()), buffer_of(all));
  return all;
}

inline double distance(const at::Tensor& one, const at::Tensor& other) {
  return (one - other).abs().max().item().toDouble();
}

/// One step of gradient descent of this rank alone.
template <typename Model>
void train_alone(Model& model, torch::optim::Optimizer& optimizer, int step, int rank) {
  optimizer.zero_grad();
  squares(model(input_of(step, rank)), target_of(rank)).backward();
  optimizer.step();
}

}  // namespace kolo::test::local
