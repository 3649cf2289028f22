// Folds of every instruction set that this machine runs, against chains of the pairwise kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/targets.hpp"
#include "unit/kernels/arrays.hpp"

namespace kolo::kernels {
namespace {

using test::kDTypes;
using test::kReduceOps;
using testing::Array;
using testing::fill;
using testing::same;

/// Filled inputs, each with a misalignment of its own.
class Inputs {
 public:
  Inputs(DType dtype, std::size_t in_count, std::size_t count, bool aligned) : dtype_(dtype), count_(count) {
    for (std::size_t k = 0; k < in_count; ++k) {
      arrays_.emplace_back(count * size_of(dtype), aligned ? 0 : 7 * k + 1);
      fill(dtype, arrays_.back().data(), count, 100 * count + k);
    }
  }

  std::vector<const void*> pointers() const {
    std::vector<const void*> all;
    for (const Array& array : arrays_) all.push_back(array.data());
    return all;
  }
  std::vector<void*> writable() {
    std::vector<void*> all;
    for (Array& array : arrays_) all.push_back(array.data());
    return all;
  }
  bool guards_intact() const {
    return std::all_of(arrays_.begin(), arrays_.end(), [](const Array& a) { return a.guards_intact(); });
  }

  /// The result of the pairwise kernels.
  std::vector<std::uint8_t> chain(ReduceOp op, std::uint64_t divisor) const {
    const auto ins = pointers();
    const bool scales = op == ReduceOp::average && is_scaled(dtype_) && ins.size() > 1;
    std::vector<std::uint8_t> sum(count_ * size_of(dtype_)), in(sum.size());
    const auto take = [&](std::vector<std::uint8_t>& to, std::size_t k) {
      if (to.empty()) return;
      std::memcpy(to.data(), ins[k], to.size());
      if (scales)
        reference::scale(dtype_, to.data(), to.data(), count_, average_scale(size_of(dtype_), divisor));
    };
    take(sum, 0);
    for (std::size_t k = 1; k < ins.size(); ++k) {
      take(in, k);
      if (op == ReduceOp::average && k + 1 == ins.size()) {
        average_function(dtype_)(sum.data(), sum.data(), in.data(), count_, divisor);
      } else {
        reduce_function(dtype_, op)(sum.data(), sum.data(), in.data(), count_);
      }
    }
    return sum;
  }

 private:
  DType dtype_;
  std::size_t count_;
  std::list<Array> arrays_;
};

/// One instance per instruction set.
class Folds : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(use_target(GetParam())); }
  void TearDown() override { use_target(""); }

  template <typename Check>
  static void for_every_kernel(Check check) {
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : kReduceOps) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::string(name_of(op)));
        const FoldFn fold = fold_function(dtype, op);
        ASSERT_EQ(fold != nullptr, knows(dtype, op));
        if (fold == nullptr) continue;
        check(dtype, op, fold);
      }
    }
  }
};

TEST_P(Folds, IntoOutputsApartAsTheChain) {
  for_every_kernel([](DType dtype, ReduceOp op, FoldFn fold) {
    for (std::size_t in_count = 1; in_count <= 9; ++in_count) {
      for (const std::size_t count : {0, 1, 3, 17, 64, 301}) {
        for (const std::size_t out_count : {std::size_t{0}, std::size_t{1}, std::size_t{3}, in_count}) {
          Inputs inputs(dtype, in_count, count, count == 64);
          const auto wanted = inputs.chain(op, in_count);
          Inputs outputs(dtype, out_count, count, count == 64);
          fold(outputs.writable().data(), out_count, inputs.pointers().data(), in_count, count, in_count);
          for (const void* out : outputs.pointers()) {
            EXPECT_TRUE(same(dtype, out, wanted.data(), count))
                << in_count << " inputs, " << count << " elements";
          }
          EXPECT_TRUE(outputs.guards_intact() && inputs.guards_intact());
        }
      }
    }
  });
}

TEST_P(Folds, InPlaceOfEveryInputAsTheChain) {
  for_every_kernel([](DType dtype, ReduceOp op, FoldFn fold) {
    for (std::size_t in_count = 1; in_count <= 9; ++in_count) {
      for (const std::size_t count : {1, 31, 128, 1025}) {
        // Position in_count means all inputs.
        for (std::size_t position = 0; position <= in_count; ++position) {
          Inputs inputs(dtype, in_count, count, count == 128);
          const auto wanted = inputs.chain(op, 7);
          const auto all = inputs.writable();
          const bool every = position == in_count;
          fold(every ? all.data() : &all[position], every ? in_count : 1, inputs.pointers().data(), in_count,
               count, 7);
          for (std::size_t k = 0; k < in_count; ++k) {
            if (!every && k != position) continue;
            EXPECT_TRUE(same(dtype, all[k], wanted.data(), count))
                << in_count << " inputs, " << count << " elements, in place of " << position;
          }
          EXPECT_TRUE(inputs.guards_intact());
        }
      }
    }
  });
}

// A chain over all 16-bit numbers and their neighbours shows each rounding between two steps.
TEST_P(Folds, RoundSixteenBitsAfterEveryStep) {
  constexpr std::size_t kCount = 65536;
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    Inputs inputs(dtype, 5, kCount, true);
    auto all = inputs.writable();
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      std::memcpy(static_cast<std::uint8_t*>(all[2]) + 2 * i, &bits, 2);
    }
    for (const ReduceOp op : kReduceOps) {
      if (!knows(dtype, op)) continue;
      Inputs out(dtype, 1, kCount, true);
      const auto wanted = inputs.chain(op, 5);
      fold_function(dtype, op)(out.writable().data(), 1, inputs.pointers().data(), 5, kCount, 5);
      EXPECT_TRUE(same(dtype, out.pointers()[0], wanted.data(), kCount))
          << name_of(dtype) << " " << name_of(op);
    }
  }
}

TEST_P(Folds, SixtyFourInputs) {
  for_every_kernel([](DType dtype, ReduceOp op, FoldFn fold) {
    Inputs inputs(dtype, 64, 333, false);
    const auto wanted = inputs.chain(op, 64);
    fold(inputs.writable().data(), 64, inputs.pointers().data(), 64, 333, 64);
    for (const void* out : inputs.pointers()) EXPECT_TRUE(same(dtype, out, wanted.data(), 333));
  });
}

INSTANTIATE_TEST_SUITE_P(Targets, Folds, ::testing::ValuesIn(supported_targets()),
                         [](const auto& info) { return info.param; });

TEST(FoldLookup, CustomIsNone) {
  for (const DType dtype : kDTypes) EXPECT_EQ(fold_function(dtype, ReduceOp::custom), nullptr);
}

}  // namespace
}  // namespace kolo::kernels
