// JoinAgreement: before each step, which ranks still have data and how much each of them counts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::train {

/// What one rank has to know of a step.
struct StepShare {
  bool is_over = false;     ///< no rank has data
  bool contributes = true;  ///< this rank has
  double factor = 1;        ///< of this rank's gradients, before they are averaged over all ranks
  int root = 0;             ///< the first rank that has data: its buffers and its order of gradients count
};

/// One small all_gather a step, under way while forward computes. Not thread-safe.
class JoinAgreement {
 public:
  /// Collective. Throws MismatchError, on all ranks, where they ask for different modes.
  JoinAgreement(Communicator communicator, JoinMode mode);
  JoinAgreement(const JoinAgreement&) = delete;
  JoinAgreement& operator=(const JoinAgreement&) = delete;

  /// This rank has so many samples in the next step; none and it has no more data. Throws
  /// InvalidArgumentError where the step before has not ended.
  void announce(std::optional<std::uint64_t> samples);
  /// Throws InvalidArgumentError where nothing was announced.
  StepShare wait();
  /// That of the step which was announced last, before and after wait().
  double factor();

 private:
  struct Word {
    std::uint64_t has_data, samples;
  };

  Communicator communicator_;
  JoinMode mode_;
  Word mine_{};
  std::vector<Word> all_;
  TensorWork work_;  ///< ends before what it borrows
  bool is_announced_ = false;
  StepShare share_;
};

}  // namespace kolo::train
