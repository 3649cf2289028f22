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
