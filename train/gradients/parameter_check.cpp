#include "gradients/parameter_check.hpp"

#include <string>

#include "kolo/error.hpp"
#include "ranks/agreement.hpp"

namespace kolo::train {

void ParameterCheck::step(Communicator& communicator) {
  if (every_ == 0 || steps_++ % every_ != 0) return;
  std::vector<std::uint64_t> mine;
  for (const NamedTensor& parameter : parameters_) {
    const at::Tensor values = parameter.tensor.is_non_overlapping_and_dense()
                                  ? parameter.tensor.detach()
                                  : parameter.tensor.detach().contiguous();
    mine.push_back(hash_of(values.data_ptr(), values.nbytes()));
  }
  if (!find_odd(communicator, hash_of(mine.data(), mine.size() * sizeof mine[0]))) return;

  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<std::uint64_t> all(ranks * mine.size());
  communicator.all_gather(ConstBuffer(mine), Buffer(all));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    std::vector<std::uint64_t> by_rank;
    for (std::size_t r = 0; r < ranks; ++r) by_rank.push_back(all[r * mine.size() + i]);
    const auto odd = find_odd(by_rank);
    if (!odd) continue;
    throw MismatchError("the ranks' parameters differ: rank " + std::to_string(odd->rank) +
                            " has other values of '" + parameters_[i].name + "' than rank " +
                            std::to_string(odd->usual) + " in step " + std::to_string(steps_) +
                            ": what is loaded on one rank after DistributedDataParallel was made needs "
                            "kolo::broadcast(), and every rank's optimizer must do the same",
                        {.peer = odd->rank, .collective = "DistributedDataParallel"});
  }
}

}  // namespace kolo::train
