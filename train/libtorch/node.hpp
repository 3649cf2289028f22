// NodePtr: how this version of libtorch holds the nodes of autograd's graph.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

namespace kolo::train {

/// A std::shared_ptr<Node>, or in newer versions a c10::intrusive_ptr<Node>.
using NodePtr = decltype(torch::autograd::Edge::function);

}  // namespace kolo::train
