// One model of seven layers, and each way to train it on several ranks behind one interface.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/parallel_model.hpp"

namespace kolo::test::composition {

/// "amp", "frozen", "clip", "unused", "tied", "recompute", "checkpoint", ...: what a cell of the table
/// combines with a wrapper.
using Features = std::set<std::string>;
using Whole = std::map<std::string, at::Tensor>;  ///< parameters of the whole model, by name

inline constexpr double kMaxNorm = 0.05, kLossScale = 256;

/// What a rank trains.
struct Trainer {
  std::vector<at::Tensor> parameters;  ///< for the optimizer
  /// Leaves the averages as gradients.
  std::function<void(const at::Tensor& input, const at::Tensor& target)> backward;
  PlacedModel placed;
  std::shared_ptr<ParallelModel> model = {};  ///< null where the wrapper is none
  int part = 0, parts = 0;  ///< of the batch: this rank's rows; as the Wrapper has ranks where `parts` is 0
  /// Between backward and the optimizer's step: whether it makes one.
  std::function<bool()> before_step = [] { return true; };
  std::function<void()> after_step = [] {};
  std::function<bool()> finish = [] { return false; };  ///< whether one more step follows the last
  bool makes_steps = false;                             ///< itself
  /// What a checkpoint has beside the parameters.
  std::function<void(Checkpoint&, torch::optim::Optimizer&)> add_to = [](Checkpoint& checkpoint,
                                                                         torch::optim::Optimizer& optimizer) {
    checkpoint.add("optimizer", optimizer);
  };
};

/// The ways, by their names in the table.
struct Wrapper {
  int ranks;
  std::function<Trainer(Communicator&, const Features&, const Whole& initial)> make;
  bool is_late = false;  ///< a step takes the averages of the one before
};
const std::map<std::string, Wrapper>& wrappers();

/// All of the model in one process; `is_late` as Wrapper's.
Trainer alone(Communicator& group_of_one, const Features& features, bool is_late);

/// The initial values, which all ways start from.
Whole initial_values(Communicator& group_of_one, const Features& features);

/// The parameters after four steps of SGD with momentum. With "checkpoint" the last two are those of a second
/// trainer, which loads from the folder what the first one has saved there.
Whole train(const std::function<Trainer()>& make, const Features& features, Communicator& communicator,
            const std::string& folder);

}  // namespace kolo::test::composition
