// Averages of integers: plain loops, because Highway has no integer division on any target.
#include <limits>
#include <type_traits>

#include "base/element.hpp"
#include "kernels/families.hpp"

namespace kolo::kernels {
namespace {

__extension__ using Uint128 = unsigned __int128;

/// Division of numbers below 2^32 by a fixed divisor with one multiplication (D. Lemire, O. Kaser, N. Kurz:
/// "Faster remainder by direct computation", 2019, section 3.1).
class NarrowDivider {
 public:
  explicit NarrowDivider(std::uint64_t divisor)
      : one_(divisor == 1),
        inverse_(divisor >> 32 == 0 ? std::numeric_limits<std::uint64_t>::max() / divisor + 1 : 0) {}

  std::uint64_t operator()(std::uint64_t n) const {
    return one_ ? n : static_cast<std::uint64_t>((static_cast<Uint128>(inverse_) * n) >> 64);
  }

 private:
  bool one_;  // the inverse, 2^64, does not fit
  std::uint64_t inverse_;
};

class WideDivider {
 public:
  explicit WideDivider(std::uint64_t divisor) : divisor_(divisor) {}
  std::uint64_t operator()(std::uint64_t n) const { return n / divisor_; }

 private:
  std::uint64_t divisor_;
};

template <typename T>
void average(void* out, const void* left, const void* right, std::size_t count, std::uint64_t divisor) {
  const std::conditional_t<sizeof(T) == 8, WideDivider, NarrowDivider> divide(divisor);
  for (std::size_t i = 0; i < count; ++i) {
    // Unsigned arithmetic wraps; dividing the magnitude truncates towards zero.
    const T sum = static_cast<T>(static_cast<std::uint64_t>(load_element<T>(left, i)) +
                                 static_cast<std::uint64_t>(load_element<T>(right, i)));
    const bool negative = sum < 0;
    const std::uint64_t widened = static_cast<std::uint64_t>(sum);
    const std::uint64_t quotient = divide(negative ? 0 - widened : widened);
    store_element(out, i, static_cast<T>(negative ? 0 - quotient : quotient));
  }
}

}  // namespace

AverageFn integer_average(DType dtype) {
  return with_type(dtype, []<typename T>(std::type_identity<T>) -> AverageFn {
    if constexpr (std::is_integral_v<T>) return average<T>;
    return nullptr;
  });
}

}  // namespace kolo::kernels
