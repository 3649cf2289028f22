// Tensors are buffers of collectives; what load() cannot use is an error of kolo's.
#include "kolo/train/tensor.hpp"

#include <gtest/gtest.h>
#include <torch/serialize/archive.h>

#include <functional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/kolo.hpp"
#include "kolo/train/data.hpp"
#include "kolo/train/optim.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::libtorch {
namespace {

static_assert(std::is_convertible_v<at::Tensor&, Buffer> && std::is_convertible_v<const at::Tensor&, Buffer>);
static_assert(std::is_convertible_v<at::Tensor&, BorrowedConstBuffer>);
static_assert(!std::is_constructible_v<Buffer, at::Tensor>);  // an asynchronous call may outlive a temporary
static_assert(!std::is_constructible_v<BorrowedConstBuffer, at::Tensor>);
using Tensors = std::vector<at::Tensor>;
static_assert(std::is_convertible_v<const Tensors&, BufferList> &&
              std::is_convertible_v<Tensors&, BorrowedConstBufferList>);
static_assert(!std::is_convertible_v<Tensors, BorrowedConstBufferList>);
static_assert(!std::is_convertible_v<at::Tensor&, BufferList>);

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST(Tensor, IsTheBufferOfACollective) {
  run_all(3, [](Communicator& communicator) {
    const at::Tensor tensor = at::full({2, 3}, communicator.rank() + 1, at::kFloat);
    communicator.all_reduce(tensor);
    EXPECT_TRUE(at::equal(tensor, at::full({2, 3}, 6, at::kFloat)));
    at::Tensor all = at::empty({3, 6}, at::kFloat);
    communicator.all_gather_async(tensor, all).wait();
    EXPECT_TRUE(at::equal(all, at::full({3, 6}, 6, at::kFloat)));
  });
}

TEST(Tensor, WithoutABufferIsRefused) {
  run_all(1, [](Communicator& communicator) {
    const auto refused = [&](const at::Tensor& tensor) {
      return refusal_of([&] { communicator.all_reduce(tensor); });
    };
    EXPECT_NE(refused({}).find("undefined"), std::string::npos);
    EXPECT_NE(refused(at::zeros({4, 4}).slice(1, 0, 2)).find("contiguous()"), std::string::npos);
    EXPECT_NE(refused(at::zeros({4}, at::kComplexHalf)).find("ComplexHalf"), std::string::npos);
    EXPECT_NE(refused(at::empty({4}, at::device(at::kMeta))).find("meta"), std::string::npos);
  });
}

/// Ranks lay out the same tensor in different ways: with odd ranks its dimensions lie in the opposite order.
at::Tensor laid_out(const at::Tensor& values, const Communicator& communicator) {
  return communicator.rank() % 2 == 0 ? values.contiguous() : values.t().contiguous().t();
}

TEST(TensorCollectives, CountElementsInTheirLogicalOrder) {
  run_all(3, [](Communicator& communicator) {
    const int rank = communicator.rank();
    const at::Tensor values = at::arange(12, at::kFloat).view({3, 4}),
                     mine = laid_out(values + rank, communicator);
    const at::Tensor sum = laid_out(at::zeros({3, 4}), communicator),
                     all = at::zeros({9, 4}).t().contiguous().t();
    EXPECT_TRUE(all_reduce_async(mine, sum, communicator).wait().is_same(sum));
    EXPECT_TRUE(at::equal(sum, values * 3 + 3));
    all_gather_async(mine, all, communicator).wait();
    EXPECT_TRUE(at::equal(all, at::cat({values, values + 1, values + 2})));
    const at::Tensor part = at::zeros({1, 4});
    reduce_scatter_async(laid_out(values, communicator), part, communicator, ReduceOp::max).wait();
    EXPECT_TRUE(at::equal(part, values.slice(0, rank, rank + 1)));
    scatter_async(rank == 1 ? laid_out(values, communicator) : at::Tensor(), part.zero_(), 1, communicator)
        .wait();
    EXPECT_TRUE(at::equal(part, values.slice(0, rank, rank + 1)));
    const at::Tensor swapped = laid_out(at::zeros({3, 4}), communicator);
    all_to_all_async(mine, swapped, communicator).wait();
    EXPECT_TRUE(at::equal(swapped, values[rank] + at::arange(3, at::kFloat).unsqueeze(1)));
    EXPECT_TRUE(at::equal(all_reduce_async(mine, communicator, ReduceOp::average).wait(), values + 1));
    EXPECT_TRUE(at::equal(broadcast_async(mine.mul_(rank), 2, communicator).wait(), (values + 1) * 2));
  });
}

TEST(TensorCollectives, MoveAnyTypeAndReduceThoseThatKoloKnows) {
  run_all(2, [](Communicator& communicator) {
    const at::Tensor mine = at::full({3}, communicator.rank() + 1, at::kFloat).to(at::kComplexHalf);
    EXPECT_THROW(require_collective(mine), InvalidArgumentError);
    EXPECT_THROW(static_cast<void>(all_reduce_async(mine, communicator)), InvalidArgumentError);
    const at::Tensor other = at::empty({3}, at::kComplexHalf);
    std::vector<TensorWork> works;
    works.push_back(recv_async(other, 1 - communicator.rank(), communicator));
    works.push_back(send_async(mine, 1 - communicator.rank(), communicator));
    EXPECT_GE(wait_all(works).count(), 0);
    EXPECT_TRUE(works.empty());
    EXPECT_TRUE(
        at::equal(other.to(at::kComplexFloat), at::full({3}, 2 - communicator.rank(), at::kComplexFloat)));
    EXPECT_FALSE(TensorWork().wait().defined());
  });
}

TEST(TensorCollectives, AreOverWhenTheirWorkEnds) {
  run_all(2, [](Communicator& communicator) {
    const at::Tensor tensor = at::ones({1000}), other = at::ones({1000}), sum = at::full({1000}, 2.0);
    {
      TensorWork dropped = all_reduce_async(tensor, communicator);
      dropped = all_reduce_async(other, communicator);
      EXPECT_TRUE(at::equal(tensor, sum));
    }
    EXPECT_TRUE(at::equal(other, sum));
    if (communicator.rank() == 1) return communicator.abort("enough");
    EXPECT_THROW(all_reduce_async(tensor, communicator).wait(), AbortedError);
    static_cast<void>(
        all_reduce_async(tensor, communicator));  // an error that is not asked for is no end of the program
  });
}

TEST(Load, ThrowsTheSameErrorWhateverItIsOf) {
  torch::serialize::OutputArchive empty;
  std::stringstream bytes;
  empty.save_to(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(bytes);
  LAMB lamb({at::zeros({2})});
  LARS lars({at::zeros({2})}, LARSOptions(0.1));
  DistributedSampler sampler(8, 0, 2);
  EXPECT_EQ(refusal_of([&] { lamb.load(archive); }).find("LAMB: "), 0u);
  EXPECT_EQ(refusal_of([&] { lars.load(archive); }).find("LARS: "), 0u);
  EXPECT_EQ(refusal_of([&] { sampler.load(archive); }).find("DistributedSampler: "), 0u);
}

}  // namespace
}  // namespace kolo::test::libtorch
