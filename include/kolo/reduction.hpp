// Reductions: how the contributions of the ranks become one value.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kolo/dtype.hpp"

namespace kolo {

/// Sets of kinds of numbers, for `KOLO_REDUCE_OPS`.
inline constexpr unsigned kFloatingNumbers = 1u << static_cast<unsigned>(NumberKind::floating);
inline constexpr unsigned kComplexNumbers = 1u << static_cast<unsigned>(NumberKind::complex);
inline constexpr unsigned kBitsAlone = ~(kFloatingNumbers | kComplexNumbers);  ///< integers and booleans
inline constexpr unsigned kAllNumbers = ~0u;                                   ///< all kinds

/// The built-in operations, a row each: enumerator, its name in kolo.h, the kinds of numbers that know it,
/// why others do not.
#define KOLO_REDUCE_OPS(ROW)                                                                                \
  ROW(sum, SUM, kAllNumbers, "")                                                                            \
  ROW(product, PRODUCT, kAllNumbers, "")                                                                    \
  ROW(min, MIN, ~kComplexNumbers, "complex numbers have no order")                                          \
  ROW(max, MAX, ~kComplexNumbers, "complex numbers have no order")                                          \
  ROW(average, AVERAGE, kFloatingNumbers | kComplexNumbers,                                                 \
      "only floating and complex numbers have one, since other sums can wrap around: sum a wider type and " \
      "divide")                                                                                             \
  ROW(bit_and, BIT_AND, kBitsAlone, "it combines the bits of integers and booleans")                        \
  ROW(bit_or, BIT_OR, kBitsAlone, "it combines the bits of integers and booleans")                          \
  ROW(bit_xor, BIT_XOR, kBitsAlone, "it combines the bits of integers and booleans")

/// How the ranks' contributions are combined, element by element; `average` is their sum divided by the
/// number of ranks. `custom` is what Reduction::custom() makes; by itself it names no operation.
enum class ReduceOp : std::uint8_t { KOLO_REDUCE_OPS(KOLO_ENUMERATOR) custom };

/// A row of the table.
struct BuiltInOperation {
  std::string_view name;            ///< as in the enumeration
  unsigned kinds = 0;               ///< the kinds of numbers that know it
  std::string_view why_not_others;  ///< the reason, as the end of a sentence
};

/// The BuiltInOperation of a row.
#define KOLO_REDUCE_OP(name, NAME, kinds, why_not_others) BuiltInOperation{#name, kinds, why_not_others},

/// The table, in the order of the enumeration.
inline constexpr BuiltInOperation kBuiltInOperations[] = {KOLO_REDUCE_OPS(KOLO_REDUCE_OP)};

/// Number of built-in operations: those before `custom`.
inline constexpr int kReduceOpCount = static_cast<int>(ReduceOp::custom);

/// "sum", "average", ...
std::string_view name_of(ReduceOp op) noexcept;
/// Whether reductions of this type know this operation. All know `custom`.
constexpr bool knows(DType dtype, ReduceOp op) noexcept {
  const auto kind = static_cast<unsigned>(element_type(dtype).kind);
  return op == ReduceOp::custom || (kBuiltInOperations[static_cast<int>(op)].kinds >> kind & 1u) != 0;
}
/// "there is no average of int8: ..."; empty if the type knows the operation.
std::string why_not(DType dtype, ReduceOp op);
/// The inverse of name_of() for all but `custom`. Returns false when there is no such operation.
bool parse_reduce_op(std::string_view name, ReduceOp& out) noexcept;

/// A user's own operation: combine(out, left, right, count, dtype) writes out[i] = left[i] op right[i] for
/// `count` elements; `out` may be the very array `left` or `right`. It must be associative; with
/// `commutative == false` kolo keeps the operands in rank order (rank 0 leftmost) and so picks only
/// algorithms that reduce in rank order.
///
/// `combine` is called from the thread that makes progress at the moment, never from two threads at once for
/// one call. It must not call kolo: functions that start a call, or wait, throw InvalidArgumentError there. A
/// `combine` that throws ends its call on every rank with an InvalidArgumentError that says what was thrown;
/// the communicator is unusable then.
struct CustomReduction {
  std::string name;  ///< for errors and timelines; the same on all ranks
  /// out[i] = left[i] op right[i] for `count` elements.
  std::function<void(void* out, const void* left, const void* right, std::uint64_t count, DType dtype)>
      combine;
  bool commutative = false;         ///< whether kolo may change the order of operands
  std::optional<DType> dtype = {};  ///< the one element type that it combines; not set: any
};

/// What every reducing collective takes. Built-in operations convert implicitly from ReduceOp.
///
/// min and max propagate NaN. average is the sum divided by the number of ranks; integers have none,
/// because their sums could wrap around. Of booleans, whose
/// bytes must be 0 or 1, sum and max are "or", product and min are "and". Integer sums and products wrap
/// around. Types of 8 and 16 bits are computed in float32 inside each step and rounded to nearest even. An
/// average of float16 or float8 is finite if all contributions are: with more than two ranks each
/// contribution is first scaled by a power of two, about 1/ranks. Only numbers below 0.00006 * ranks lose
/// bits by that.
class Reduction {
 public:
  /// A built-in operation.
  Reduction(ReduceOp op) noexcept : op_(op) {}  // NOLINT: implicit on purpose
  /// Throws InvalidArgumentError when `combine` is empty.
  [[nodiscard]] static Reduction custom(CustomReduction reduction);
  /// The same for one element type and one element: combine(a, b) returns a op b. A call with buffers of
  /// another type throws InvalidArgumentError.
  template <Element T, typename Combine>
  requires std::is_invocable_r_v<T, const Combine&, T, T>
  [[nodiscard]] static Reduction custom(std::string name, Combine combine, bool commutative = false) {
    const auto combine_all = [combine = std::move(combine)](void* out, const void* left, const void* right,
                                                            std::uint64_t count, DType) {
      const auto* const a = static_cast<const T*>(left);
      const auto* const b = static_cast<const T*>(right);
      for (std::uint64_t i = 0; i < count; ++i) static_cast<T*>(out)[i] = combine(a[i], b[i]);
    };
    return custom({std::move(name), combine_all, commutative, dtype_of<T>});
  }
  /// The sum of contributions each of which is first multiplied by the factor of its rank. Ranks need not
  /// have the same factor; one may call for a plain sum, whose factor is 1. Of floating and complex numbers;
  /// types of 8 and 16 bits are multiplied in float32 and rounded. Costs a pass over the input and, where the
  /// output is smaller than the input, memory for a copy of it.
  [[nodiscard]] static Reduction premultiplied_sum(double factor);

  /// The operation; `custom` for one made by custom(), `sum` for one made by premultiplied_sum().
  ReduceOp op() const noexcept { return op_; }
  /// Null for the built-in operations.
  const CustomReduction* custom_reduction() const noexcept {
    return op_ == ReduceOp::custom ? static_cast<const CustomReduction*>(own_.get()) : nullptr;
  }
  /// The factor of a premultiplied sum; else null.
  const double* factor() const noexcept {
    return has_factor_ ? static_cast<const double*>(own_.get()) : nullptr;
  }
  /// Whether it holds memory or a function.
  bool owns() const noexcept { return own_ != nullptr; }
  /// The name of the operation.
  std::string name() const;

 private:
  friend Reduction reduction_that_keeps(ReduceOp op, std::shared_ptr<const void> memory);

  ReduceOp op_;
  bool has_factor_ = false;
  std::shared_ptr<const void> own_;  // what it needs besides
};

}  // namespace kolo
