// The functions between ranks: what each rank gets, and the gradients of a loss that is one number.
#include "kolo/train/group_functions.hpp"

#include <gtest/gtest.h>

#include "kolo/error.hpp"
#include "kolo/train/slice.hpp"
#include "train/support/ranks.hpp"
#include "train/tensor/training.hpp"

namespace kolo::test::tensor {
namespace {

constexpr std::int64_t kTime = 7;  // which 2, 3 and 4 ranks do not divide

at::Tensor part_of(const at::Tensor& whole, std::int64_t dimension, const Communicator& group) {
  const Slice own = slice_of(whole.size(dimension), group.rank(), group.size());
  return whole.narrow(dimension, own.begin, own.length);
}

at::Tensor leaf(const at::Tensor& x) {
  return x.detach().clone().set_requires_grad(true);
}

void expect_near(const at::Tensor& one, const at::Tensor& other) {
  EXPECT_LT(relative_distance(one, other), one.scalar_type() == at::kBFloat16 ? 2e-2 : 1e-6);
}

void on_all_types(const std::function<void(Communicator&, at::ScalarType)>& body) {
  run_all(4, [&](Communicator& all) {
    for (const int ranks : {1, 2, 3, 4}) {
      Communicator group = all.split(all.rank() < ranks ? 0 : -1);
      if (!group.valid()) continue;
      for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) body(group, type);
    }
  });
}

TEST(Slices, FollowEachOtherAndDifferByOne) {
  EXPECT_EQ(slice_of(10, 0, 4), (Slice{0, 3}));
  EXPECT_EQ(slice_of(10, 1, 4), (Slice{3, 3}));
  EXPECT_EQ(slice_of(10, 2, 4), (Slice{6, 2}));
  EXPECT_EQ(slice_of(10, 3, 4), (Slice{8, 2}));
  EXPECT_EQ(slice_of(2, 3, 4), (Slice{2, 0}));
  EXPECT_EQ(slice_lengths(8, 2), (std::vector<std::int64_t>{4, 4}));
  EXPECT_THROW(slice_of(-1, 0, 2), InvalidArgumentError);
  EXPECT_THROW(slice_of(4, 2, 2), InvalidArgumentError);
  EXPECT_THROW(slice_lengths(4, 0), InvalidArgumentError);
}

TEST(TensorFunctions, CopyAndReduceAreEachOthersGradients) {
  on_all_types([](Communicator& group, at::ScalarType type) {
    const at::Tensor x = leaf(waves({3, 4}, 1).to(type));
    const double mine = group.rank() + 1, sum = group.size() * (group.size() + 1) / 2.0;
    // Each rank makes a part: x times its number.
    const at::Tensor y = reduce_from_group(copy_to_group(x, group) * mine, group);
    expect_near(y, x * sum);
    (y * waves({3, 4}, 2).to(type)).sum().backward();
    expect_near(x.grad(), waves({3, 4}, 2).to(type) * sum);
  });
}

TEST(TensorFunctions, SplitAndGatherAreEachOthersGradients) {
  on_all_types([](Communicator& group, at::ScalarType type) {
    for (const std::int64_t dimension : {0, 1, -1}) {
      const at::Tensor whole = waves({kTime, kTime, kTime}, 1).to(type), x = leaf(whole);
      const at::Tensor part = split_to_group(x, dimension, group);
      EXPECT_TRUE(at::equal(part, part_of(whole, dimension, group)));
      const at::Tensor y = gather_from_group(part * part, dimension, group, kTime);
      expect_near(y, whole * whole);
      (y * waves({kTime, kTime, kTime}, 2).to(type)).sum().backward();
      expect_near(x.grad(), 2 * whole * waves({kTime, kTime, kTime}, 2).to(type));
    }
  });
}

TEST(TensorFunctions, SequencesAreGatheredAndTheirSumsScattered) {
  on_all_types([](Communicator& group, at::ScalarType type) {
    const at::Tensor whole = waves({2, kTime, 3}, 1).to(type);
    const at::Tensor x = leaf(part_of(whole, 1, group));
    const double mine = group.rank() + 1, sum = group.size() * (group.size() + 1) / 2.0;
    const at::Tensor all = gather_sequence(x, 1, group, kTime);
    EXPECT_TRUE(at::equal(all, whole));
    const at::Tensor y = scatter_sequence(all * mine, 1, group);
    expect_near(y, part_of(whole, 1, group) * sum);
    // The loss is the sum of what the ranks compute of their slices.
    const at::Tensor weights = part_of(waves({2, kTime, 3}, 2).to(type), 1, group);
    (y * weights).sum().backward();
    expect_near(x.grad(), weights * sum);
  });
}

TEST(TensorFunctions, AllToAllExchangesTheDimensionThatIsWhole) {
  on_all_types([](Communicator& group, at::ScalarType type) {
    const at::Tensor whole = waves({2, kTime, 5, 3}, 1).to(type);
    const at::Tensor x = leaf(part_of(whole, 1, group));
    const at::Tensor y = all_to_all(x, 2, 1, group, kTime);
    EXPECT_TRUE(at::equal(y, part_of(whole, 2, group)));
    (y * y).sum().backward();
    expect_near(x.grad(), 2 * part_of(whole, 1, group));
    EXPECT_TRUE(at::equal(all_to_all(y, 1, 2, group, 5), part_of(whole, 1, group)));
  });
}

TEST(TensorFunctions, RefuseWhatTheyCannotDo) {
  run_all(2, [](Communicator& group) {
    const at::Tensor x = at::ones({4, 4}).set_requires_grad(true);
    EXPECT_THROW(gather_sequence(x, 0, group, 12), InvalidArgumentError);
    EXPECT_THROW(all_to_all(x, 1, -1, group), InvalidArgumentError);
    const at::Tensor loss = copy_to_group(x, group).square().sum();
    EXPECT_THROW(loss.backward({}, {}, true), InvalidArgumentError);
  });
}

}  // namespace
}  // namespace kolo::test::tensor
