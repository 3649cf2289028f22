#include "kolo/train/tensor.hpp"

#include <torch/version.h>

#include "kolo/error.hpp"
#include "libtorch/first_use.hpp"

namespace kolo {

DType dtype_of_tensor(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::float32;
    case at::kDouble:
      return DType::float64;
    case at::kHalf:
      return DType::float16;
    case at::kBFloat16:
      return DType::bfloat16;
    case at::kChar:
      return DType::int8;
    case at::kShort:
      return DType::int16;
    case at::kInt:
      return DType::int32;
    case at::kLong:
      return DType::int64;
    case at::kByte:
      return DType::uint8;
    case at::kBool:
      return DType::boolean;
    case at::kComplexFloat:
      return DType::complex64;
    case at::kComplexDouble:
      return DType::complex128;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    case at::kFloat8_e4m3fn:
      return DType::float8_e4m3fn;
    case at::kFloat8_e5m2:
      return DType::float8_e5m2;
#endif
    default:
      throw InvalidArgumentError(std::string("kolo cannot reduce tensors of type ") + c10::toString(type),
                                 {});
  }
}

Buffer buffer_of(const at::Tensor& tensor) {
  if (!tensor.defined()) throw InvalidArgumentError("an undefined tensor has no buffer", {});
  if (!tensor.device().is_cpu()) {
    throw InvalidArgumentError("a tensor on " + tensor.device().str() + " has no buffer that kolo can use",
                               {});
  }
  if (tensor.layout() != at::kStrided) throw InvalidArgumentError("a sparse tensor has no buffer", {});
  if (!tensor.is_non_overlapping_and_dense()) {
    throw InvalidArgumentError("the tensor has gaps or overlaps in memory: pass contiguous()", {});
  }
  train::FirstUse::touch(tensor);
  return {tensor.data_ptr(), static_cast<std::uint64_t>(tensor.numel()),
          dtype_of_tensor(tensor.scalar_type())};
}

}  // namespace kolo
