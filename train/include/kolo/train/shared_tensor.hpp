// Tensors in memory that the ranks of a host share, so that collectives on them move nothing else.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

namespace kolo {

/// Ordinary dense CPU tensors whose memory comes from SharedArena::instance(): a forked child sees what its
/// parent writes there after the fork, until it writes itself; what at::empty and at::empty_like make
/// otherwise, with uninitialized values. Both throw InvalidArgumentError for what is not dense or not on the
/// CPU, and SystemError when memory or descriptors run out.
at::Tensor shared_empty(at::IntArrayRef sizes, const at::TensorOptions& options = {});
at::Tensor shared_like(const at::Tensor& tensor);

/// Moves a tensor's storage there, with its values; nothing where it lies there already. The tensor stays the
/// same object, and whoever shares the storage (views, tied parameters, optimizers) comes along; raw pointers
/// from before are dangling. No other thread may use the tensor meanwhile. Throws as above; then nothing has
/// changed.
void move_to_shared_memory(const at::Tensor& tensor);
/// All parameters and buffers, those of submodules too. Gradients under DistributedDataParallel live there
/// anyway. When it throws, some have been moved, which changes no value.
void move_to_shared_memory(const torch::nn::Module& module);

/// Whether all of a tensor's storage lies in memory that kolo gave out.
bool is_shared(const at::Tensor& tensor);

}  // namespace kolo
