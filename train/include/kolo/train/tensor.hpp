// Tensors as kolo's buffers: how the element types of libtorch and of kolo correspond.
#pragma once

#include "kolo/train/libtorch.hpp"

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

}  // namespace kolo
