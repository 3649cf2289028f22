// Copies a model, an optimizer or any other object from one rank to all, after that rank has loaded a
// checkpoint, for example.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize.h>

#include <functional>
#include <iosfwd>

#include "kolo/communicator.hpp"

namespace kolo {

/// Collective: all ranks get the root's parameters and buffers, in place. It may be wrapped by
/// DistributedDataParallel. Throws MismatchError, on all ranks, if the models differ in names, types or
/// shapes, and InvalidArgumentError for a tensor that is not a dense CPU tensor.
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
