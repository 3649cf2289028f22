// Tensors as kolo's buffers, in memory that ranks share, in memory that a step reuses.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include "kolo/buffer.hpp"

namespace kolo {

/// The type in which collectives see `type`; bool travels as uint8 (min is "and", max is "or"). Throws
/// InvalidArgumentError for complex, quantized and other types that kolo does not reduce.
DType dtype_of_tensor(at::ScalarType type);

/// The elements of a dense CPU tensor in the order in which they lie in memory (for channels_last tensors
/// that is not their logical order). The tensor keeps the memory: hold it until the Work is done. Throws
/// InvalidArgumentError when the tensor is undefined, not on the CPU, sparse, or has gaps between its
/// elements.
Buffer buffer_of(const at::Tensor& tensor);

/// Tensors are buffers: `communicator.all_reduce(tensor)` is all_reduce(buffer_of(tensor)), and throws the
/// same.
template <>
struct BufferTraits<at::Tensor> {
  /// buffer_of().
  static Buffer of(const at::Tensor& tensor) { return buffer_of(tensor); }
};

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

/// Lets malloc() keep up to 1 GiB of freed memory for the next step. A training step allocates what the step
/// before has freed. By default glibc returns much of it to the system, and the next step pays a page fault
/// for every 4 KiB: up to 2.7 times the time of a step (docs/training.md). Heaps of other threads than the
/// main one stay, too. Call it once, at the beginning of main(). It changes the whole process: resident
/// memory no longer falls when tensors are freed. Does nothing where the C library is not glibc. Any thread.
void keep_freed_memory();

}  // namespace kolo
