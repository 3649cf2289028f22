// Every kernel of every instruction set that this machine runs, against the plain loops of
// kernels::reference.
#include "kernels/kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernels/targets.hpp"
#include "unit/kernels/arrays.hpp"

namespace kolo::kernels {
namespace {

using test::kDTypes;
using test::kReduceOps;
using testing::Array;
using testing::fill;
using testing::same;

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 4099};

/// Byte offsets of (out, left, right) from a multiple of 64; in place, out has the offset of its input.
struct Misalignment {
  std::size_t out, left, right;
};
constexpr Misalignment kMisalignments[] = {{0, 0, 0}, {8, 8, 8}, {1, 2, 3}, {0, 4, 60}, {33, 0, 7}};

enum class Form { apart, in_left, in_right, all_one };
constexpr Form kForms[] = {Form::apart, Form::in_left, Form::in_right, Form::all_one};

/// Runs `kernel(out, left, right, count)` in one form and checks it against `wanted`, which gets the same
/// operands.
template <typename Kernel, typename Wanted>
void check(DType dtype, std::size_t count, Misalignment at, Form form, Kernel kernel, Wanted wanted) {
  const std::size_t bytes = count * size_of(dtype);
  Array out(bytes, at.out);
  Array left(bytes, at.left);
  Array right(bytes, at.right);
  Array expected(bytes, 0);
  fill(dtype, left.data(), count, 17 * count + 1);
  fill(dtype, right.data(), count, 17 * count + 2);
  Array& second = form == Form::all_one ? left : right;
  Array& target = form == Form::apart ? out : form == Form::in_right ? right : left;

  wanted(expected.data(), left.data(), second.data(), count);
  kernel(target.data(), left.data(), second.data(), count);
  EXPECT_TRUE(same(dtype, target.data(), expected.data(), count))
      << name_of(dtype) << ", " << count << " elements, form " << static_cast<int>(form) << ", offsets "
      << at.out << " " << at.left << " " << at.right;
  EXPECT_TRUE(out.guards_intact() && left.guards_intact() && right.guards_intact());
}

template <typename Kernel, typename Wanted>
void check_everywhere(DType dtype, Kernel kernel, Wanted wanted) {
  for (const std::size_t count : kCounts) {
    for (const Misalignment at : kMisalignments) {
      for (const Form form : kForms) check(dtype, count, at, form, kernel, wanted);
    }
  }
}

/// One instance per instruction set.
class Kernels : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(use_target(GetParam()));
    ASSERT_EQ(current_target(), GetParam());
  }
  void TearDown() override { use_target(""); }
};

TEST_P(Kernels, ReduceAsTheReference) {
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : kReduceOps) {
      SCOPED_TRACE(std::string(name_of(op)));
      const ReduceFn reduce = reduce_function(dtype, op);
      ASSERT_EQ(reduce != nullptr, knows(dtype, op));
      if (reduce == nullptr) continue;
      check_everywhere(
          dtype, [&](void* out, const void* l, const void* r, std::size_t n) { reduce(out, l, r, n); },
          [&](void* out, const void* l, const void* r, std::size_t n) {
            reference::reduce(dtype, op, out, l, r, n);
          });
    }
  }
}

TEST_P(Kernels, AverageAsTheReference) {
  const std::uint64_t divisors[] = {1,          2,    3, 7, 8, 127, 255, 1000, 65537, (1ull << 32) - 1,
                                    1ull << 32, ~0ull};
  for (const DType dtype : kDTypes) {
    const AverageFn average = average_function(dtype);
    ASSERT_EQ(average != nullptr, knows(dtype, ReduceOp::average));
    if (average == nullptr) continue;
    for (const std::uint64_t divisor : divisors) {
      SCOPED_TRACE("divided by " + std::to_string(divisor));
      const auto kernel = [&](void* out, const void* l, const void* r, std::size_t n) {
        average(out, l, r, n, divisor);
      };
      const auto wanted = [&](void* out, const void* l, const void* r, std::size_t n) {
        reference::average(dtype, out, l, r, n, divisor);
      };
      for (const std::size_t count : {0, 1, 17, 65, 1000}) {
        for (const Form form : kForms) check(dtype, count, {1, 2, 3}, form, kernel, wanted);
      }
    }
  }
}

TEST_P(Kernels, ScaleAsTheReference) {
  for (const DType dtype : kDTypes) {
    const ScaleFn scale = scale_function(dtype);
    ASSERT_EQ(scale != nullptr, is_floating(dtype) || is_complex(dtype));
    if (scale == nullptr) continue;
    for (const double factor : {1.0, 0.5, 0x1p-7, -3.7, 1e30}) {
      const auto kernel = [&](void* out, const void* in, const void*, std::size_t n) {
        scale(out, in, n, factor);
      };
      const auto wanted = [&](void* out, const void* in, const void*, std::size_t n) {
        reference::scale(dtype, out, in, n, factor);
      };
      for (const std::size_t count : {0, 1, 17, 65, 1000}) {
        for (const Form form : {Form::apart, Form::in_left})
          check(dtype, count, {1, 2, 3}, form, kernel, wanted);
      }
    }
  }
}

TEST_P(Kernels, ReduceEveryPairOfBytes) {
  for (const DType dtype : {DType::int8, DType::uint8, DType::float8_e4m3fn, DType::float8_e5m2}) {
    for (const ReduceOp op : kReduceOps) {
      Array left(65536, 0), right(65536, 0), out(65536, 0), expected(65536, 0);
      for (int i = 0; i < 65536; ++i) {
        static_cast<std::uint8_t*>(left.data())[i] = static_cast<std::uint8_t>(i);
        static_cast<std::uint8_t*>(right.data())[i] = static_cast<std::uint8_t>(i >> 8);
      }
      if (!knows(dtype, op)) continue;
      reference::reduce(dtype, op, expected.data(), left.data(), right.data(), 65536);
      reduce_function(dtype, op)(out.data(), left.data(), right.data(), 65536);
      EXPECT_TRUE(same(dtype, out.data(), expected.data(), 65536)) << name_of(dtype) << " " << name_of(op);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Kernels, ::testing::ValuesIn(supported_targets()),
                         [](const auto& info) { return info.param; });

TEST(KernelLookup, AverageIsTheSumAndCustomIsNone) {
  for (const DType dtype : kDTypes) {
    EXPECT_EQ(reduce_function(dtype, ReduceOp::custom), nullptr);
    if (!knows(dtype, ReduceOp::average)) continue;
    EXPECT_EQ(reduce_function(dtype, ReduceOp::average), reduce_function(dtype, ReduceOp::sum));
  }
}

TEST(KernelLookup, NamesTheTargetInUse) {
  const auto targets = supported_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(current_target(), targets.front()) << "the best one is the default";
  EXPECT_EQ(std::string(target_name()).rfind(targets.front() + " (of ", 0), 0u) << target_name();

  EXPECT_FALSE(use_target("NO_SUCH_TARGET"));
  EXPECT_EQ(current_target(), targets.front());
  ASSERT_TRUE(use_target(targets.back()));
  EXPECT_EQ(std::string(target_name()).rfind(targets.back() + " (of ", 0), 0u) << target_name();
  ASSERT_TRUE(use_target(""));
  EXPECT_EQ(current_target(), targets.front());
}

TEST(KernelLookup, TargetsHaveKernelsOfTheirOwn) {
  const auto targets = supported_targets();
  std::vector<ReduceFn> kernels;
  for (const auto& target : targets) {
    ASSERT_TRUE(use_target(target));
    kernels.push_back(reduce_function(DType::float32, ReduceOp::sum));
  }
  use_target("");
  std::sort(kernels.begin(), kernels.end());
  EXPECT_EQ(std::unique(kernels.begin(), kernels.end()), kernels.end());
}

TEST(Copy, MovesExactlyTheBytes) {
  // The longest arrays exceed the last-level cache of most machines, where copy() uses non-temporal stores.
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 4099, (1 << 20) + 5, (40 << 20) + 333}) {
    for (const std::size_t offset : {0, 1, 32}) {
      Array from(bytes, offset), to(bytes, 7 * offset);
      std::mt19937_64 random(bytes);
      for (std::size_t i = 0; i < bytes / 8; ++i) {
        const std::uint64_t value = random();
        std::memcpy(static_cast<std::uint8_t*>(from.data()) + 8 * i, &value, 8);
      }
      copy(to.data(), from.data(), bytes);
      EXPECT_EQ(std::memcmp(to.data(), from.data(), bytes), 0) << bytes << " bytes, offset " << offset;
      EXPECT_TRUE(to.guards_intact());
    }
  }
  copy(nullptr, nullptr, 0);
}

}  // namespace
}  // namespace kolo::kernels
