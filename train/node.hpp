// NodePtr, WeakNodePtr: how this version of libtorch holds the nodes of autograd's graph.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <utility>

namespace kolo::train {

template <typename T>
std::weak_ptr<T> weak(const std::shared_ptr<T>& pointer) {
  return pointer;
}
template <typename T>
c10::weak_intrusive_ptr<T> weak(const c10::intrusive_ptr<T>& pointer) {
  return c10::weak_intrusive_ptr<T>(pointer);
}

/// A std::shared_ptr<Node>, or in newer versions a c10::intrusive_ptr<Node>.
using NodePtr = decltype(torch::autograd::Edge::function);
using WeakNodePtr = decltype(weak(std::declval<const NodePtr&>()));

}  // namespace kolo::train
