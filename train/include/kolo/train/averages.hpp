// One value for all ranks: agreement, averages of metrics, parameters and gradients, copies of what one rank
// has.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize.h>

#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo {

/// Collective: returns where all ranks can go on and agree, else throws the same error on all.
/// `require_valid`, if there is one, is called first: where it throws, InvalidArgumentError names the first
/// such rank, with what it says there. Where `lines` are not the same on all ranks, MismatchError names the
/// first rank whose lines are not those of most (in a tie, not those of the first), and the first line that
/// differs. `lines` are read after `require_valid`, which may write them. Costs 16 bytes a rank where all is
/// well. `who` begins the texts.
void agree(Communicator& communicator, const char* who, const std::string& lines,
           const std::function<void()>& require_valid = {});

/// Values by name: a loss, an accuracy, ...
using Metrics = std::map<std::string, double>;

/// Collective: the mean of each metric over all ranks, the same bits on all of them. `weight` is what this
/// rank counts, the number of its samples, say: a rank of weight 0 adds nothing, whatever its values. Throws,
/// on all ranks, MismatchError where the names differ, InvalidArgumentError for a weight that is negative or
/// not finite, or where all weights are 0.
Metrics average(const Metrics& metrics, Communicator& communicator, double weight = 1);

/// Collective: the mean of each parameter over all ranks takes its place, the same bits on all of them;
/// buffers stay each rank's own. For models that are trained apart and put together now and then
/// ("local SGD", T. Lin et al., ICLR 2020; see make_post_local_sgd_hook()). Throws MismatchError, on all
/// ranks, if the models differ in names, types or shapes, and InvalidArgumentError for a parameter that is
/// not a dense tensor of numbers that can be averaged.
void average_parameters(const torch::nn::Module& module, Communicator& communicator);

/// Collective: the mean of each parameter's gradient over all ranks takes its place, the same bits on all of
/// them. For parameters that DistributedDataParallel cannot watch: shards, stages whose micro-batches are
/// over. A parameter without a gradient counts as zero and has one afterwards. Every rank passes tensors of
/// the same types and sizes, in one order; MismatchError on all ranks tells where they differ. Throws
/// InvalidArgumentError, on that rank before any byte moves, for a gradient that is no dense tensor of
/// numbers that can be averaged, and for a parameter that is in shards.
void average_gradients(const std::vector<at::Tensor>& parameters, Communicator& communicator);

/// Collective: all ranks get the root's parameters and buffers, in place. It may be wrapped by
/// DistributedDataParallel. Throws MismatchError, on all ranks, if the models differ in names, types or
/// shapes, and InvalidArgumentError for a tensor that is not a dense one.
void broadcast(const torch::nn::Module& module, Communicator& communicator, int root = 0);

/// Collective: all ranks get the root's optimizer state (momenta, step counts) and options (learning rates)
/// of each parameter group. Serves every optimizer that torch::save() serves; the
/// optimizers must be of one type, with the same parameters in the same groups. If a rank cannot save or
/// load, all ranks throw Error that names it and says why; the state is of no use then.
void broadcast(torch::optim::Optimizer& optimizer, Communicator& communicator, int root = 0);

/// Collective: all ranks get the root's object. `save` writes it, on the root; `load` reads it, on the other
/// ranks. If a rank cannot save or load, all ranks throw Error that names it and says why.
void broadcast_object(const std::function<void(std::ostream&)>& save,
                      const std::function<void(std::istream&)>& load, Communicator& communicator,
                      int root = 0);
/// The same for whatever torch::save() and torch::load() serve: tensors and vectors of them, c10::IValue,
/// modules, ...
template <typename Value>
void broadcast_object(Value& value, Communicator& communicator, int root = 0) {
  broadcast_object([&](std::ostream& to) { torch::save(value, to); },
                   [&](std::istream& from) { torch::load(value, from); }, communicator, root);
}

}  // namespace kolo
