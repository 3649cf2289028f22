// DefaultArithmetic: sums and choices that do not depend on the floating-point mode that the program has set
// in its threads.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <cstdint>

namespace kolo {

/// While it lives, this thread rounds to nearest and keeps denormal numbers: the default of every thread.
/// Several ranks may compute the same sum, or choose by the same costs, and must get the same bits. Which
/// thread of a rank computes a sum depends on timing.
class DefaultArithmetic {
 public:
  DefaultArithmetic() : before_(control()) {
    if ((before_ & kChoices) != 0) set_control(before_ & ~kChoices);
  }
  ~DefaultArithmetic() {
    if ((before_ & kChoices) != 0) set_control(before_);
  }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
#if defined(__SSE2__)
  // MXCSR and, above its 16 bits, the control word of the x87, by which strtod() rounds.
  using Control = std::uint32_t;
  // Flush to zero, rounding (2 bits), denormals are zero; rounding of the x87 (2 bits).
  static constexpr Control kChoices = 0xe040u | 0x0c00u << 16;
  static Control control() {
    std::uint16_t x87;
    asm volatile("fnstcw %0" : "=m"(x87));
    return _mm_getcsr() | Control{x87} << 16;
  }
  static void set_control(Control control) {
    const auto x87 = static_cast<std::uint16_t>(control >> 16);
    asm volatile("fldcw %0" : : "m"(x87));
    _mm_setcsr(control & 0xffff);
  }
#elif defined(__aarch64__)
  using Control = std::uint64_t;
  static constexpr Control kChoices = 0x3ull << 22 | 1ull << 24 | 1ull << 25;  // RMode, FZ, DN (default NaN)
  static Control control() {
    Control control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    return control;
  }
  static void set_control(Control control) {
    asm volatile("msr fpcr, %0" : : "r"(control));
  }
#else
  using Control = unsigned;
  static constexpr Control kChoices = 0;
  static Control control() {
    return 0;
  }
  static void set_control(Control) {}
#endif

  const Control before_;
};

}  // namespace kolo
