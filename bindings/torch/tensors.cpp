#include "tensors.hpp"

#include <optional>
#include <stdexcept>
#include <string>

#include "kolo/trouble.hpp"
#include "version.hpp"

namespace kolo::pytorch {
namespace {

std::optional<DType> dtype_of_tensor(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
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
    default:
      return newer_dtype(tensor.scalar_type());
  }
}

Device device_of_tensor(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return {};
  return {DeviceKind::cuda, static_cast<std::int16_t>(tensor.device().index())};
}

}  // namespace

Buffer buffer_of(const at::Tensor& tensor) {
  if (const auto dtype = dtype_of_tensor(tensor))
    return {tensor.data_ptr(), static_cast<std::uint64_t>(tensor.numel()), *dtype, device_of_tensor(tensor)};
  return {tensor.data_ptr(), tensor.nbytes(), DType::uint8, device_of_tensor(tensor)};
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

bool averages_integers(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  return op.op_ == c10d::ReduceOp::AVG && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
}

Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  if (!dtype_of_tensor(tensor)) {
    throw std::invalid_argument(
        with_code(std::string("kolo reduces no elements of type ") + c10::toString(tensor.scalar_type())));
  }
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return ReduceOp::sum;
    case c10d::ReduceOp::AVG:
      return averages_integers(op, tensor) ? ReduceOp::sum : ReduceOp::average;
    case c10d::ReduceOp::PRODUCT:
      return ReduceOp::product;
    case c10d::ReduceOp::MIN:
      return ReduceOp::min;
    case c10d::ReduceOp::MAX:
      return ReduceOp::max;
    case c10d::ReduceOp::BAND:
      return ReduceOp::bit_and;
    case c10d::ReduceOp::BOR:
      return ReduceOp::bit_or;
    case c10d::ReduceOp::BXOR:
      return ReduceOp::bit_xor;
    case c10d::ReduceOp::PREMUL_SUM:
      return Reduction::premultiplied_sum(factor_of(op));
    default:
      throw std::invalid_argument(
          with_code("kolo does not know this operation of torch.distributed.ReduceOp"));
  }
}

}  // namespace kolo::pytorch
