// Tensors in shared memory are ordinary tensors, and collectives change them where they lie.
#include "kolo/train/tensor.hpp"

#include "train/support/models.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/nn/modules/batchnorm.h>
#include <unistd.h>

#include "kolo/arena.hpp"
#include "kolo/error.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::libtorch {
namespace {

TEST(SharedTensor, IsWhatEmptyMakes) {
  const at::Tensor plain = shared_empty({3, 5});
  EXPECT_EQ(plain.sizes(), at::IntArrayRef({3, 5}));
  EXPECT_TRUE(plain.is_contiguous());
  EXPECT_EQ(plain.scalar_type(), at::kFloat);
  EXPECT_TRUE(is_shared(plain));

  const auto options =
      at::TensorOptions(at::kBFloat16).requires_grad(true).memory_format(at::MemoryFormat::ChannelsLast);
  const at::Tensor image = shared_empty({2, 3, 4, 5}, options);
  EXPECT_EQ(image.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(image.requires_grad());
  EXPECT_TRUE(image.is_contiguous(at::MemoryFormat::ChannelsLast));

  const at::Tensor like = shared_like(image);
  EXPECT_EQ(like.strides(), image.strides());
  EXPECT_EQ(like.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(is_shared(like));
  EXPECT_NE(like.data_ptr(), image.data_ptr());

  EXPECT_EQ(shared_empty({0, 4}).numel(), 0);
  EXPECT_FALSE(is_shared(at::empty({3})));
}

TEST(SharedTensor, GoesBackToTheArena) {
  const std::size_t before = SharedArena::instance().usage().blocks;
  {
    const at::Tensor tensor = shared_empty({1000}), view = tensor.slice(0, 10, 20);
    EXPECT_EQ(SharedArena::instance().usage().blocks, before + 1);
  }
  EXPECT_EQ(SharedArena::instance().usage().blocks, before);
}

TEST(SharedTensor, MovingTakesValuesAndViewsAlong) {
  at::Tensor tensor = numbers(4, 6, 1);
  const at::Tensor wanted = tensor.clone(), view = tensor.select(0, 2);
  move_to_shared_memory(view);
  EXPECT_TRUE(is_shared(tensor) && is_shared(view));
  EXPECT_TRUE(at::equal(tensor, wanted));
  tensor.fill_(7);
  EXPECT_TRUE(at::equal(view, at::full({6}, 7.0)));
  const void* const where = tensor.data_ptr();
  move_to_shared_memory(tensor);
  EXPECT_EQ(tensor.data_ptr(), where) << "it was there already";
  tensor.resize_({100, 100});
  tensor.zero_();
}

TEST(SharedTensor, RefusesWhatHasNoDenseMemoryHere) {
  EXPECT_THROW(shared_like(at::Tensor()), InvalidArgumentError);
  EXPECT_THROW(move_to_shared_memory(at::Tensor()), InvalidArgumentError);
  EXPECT_THROW(move_to_shared_memory(at::eye(3).to_sparse()), InvalidArgumentError);
  EXPECT_THROW(shared_empty({3}, at::TensorOptions(at::kMeta)), InvalidArgumentError);
}

TEST(SharedTensor, AModuleMovesAndTrainsOn) {
  at::set_num_threads(1);
  struct Net : torch::nn::Module {
    Net() : chain(0.0), norm(4) {
      register_module("chain", chain);
      register_module("norm", norm);
      tied = register_parameter("tied", chain->third->bias);
    }
    at::Tensor forward(const at::Tensor& x) { return norm(chain(x)) + tied; }
    Chain chain;
    torch::nn::BatchNorm1d norm;
    at::Tensor tied;
  };
  // The same two steps, with the move in between or not.
  const auto train = [](bool moves) {
    Net net;
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
    for (int step = 0; step < 4; ++step) {
      if (moves && step == 2) {
        move_to_shared_memory(net);
        for (const at::Tensor& tensor : net.parameters()) EXPECT_TRUE(is_shared(tensor));
        for (const at::Tensor& tensor : net.buffers()) EXPECT_TRUE(is_shared(tensor));
        EXPECT_EQ(net.tied.data_ptr(), net.chain->third->bias.data_ptr());
      }
      optimizer.zero_grad();
      squares(net.forward(numbers(8, 8, step)), numbers(8, 4, 50)).backward();
      optimizer.step();
    }
    return at::cat({net.chain->first->weight.flatten(), net.norm->running_mean, net.tied});
  };
  EXPECT_TRUE(at::equal(train(true), train(false)));
}

TEST(SharedTensor, AllReduceSumsInPlace) {
  run_all(3, [](Communicator& communicator) {
    at::Tensor tensor = numbers(10, 1000, 0);
    move_to_shared_memory(tensor);
    const void* const where = tensor.data_ptr();
    communicator.all_reduce(buffer_of(tensor), ReduceOp::sum);
    EXPECT_EQ(tensor.data_ptr(), where);
    EXPECT_TRUE(at::allclose(tensor, numbers(10, 1000, 0) * 3));
  });
}

TEST(SharedTensor, BucketsLieInTheArena) {
  run_all(2, [](Communicator& communicator) {
    DistributedDataParallel model(Chain(0.0), communicator);
    squares(model(numbers(8, 8, 1)), numbers(8, 4, 2)).backward();
    for (const at::Tensor& parameter : model.parameters()) EXPECT_TRUE(is_shared(parameter.grad()));
  });
}

TEST(SharedTensor, NoDescriptorLeavesTheTensorAsItWas) {
  const pid_t child = ::fork();  // the limit stays there
  if (child == 0) {
    const at::Tensor tensor = at::ones({1000});
    const void* const where = tensor.data_ptr();
    const rlimit none{3, 3};
    ::setrlimit(RLIMIT_NOFILE, &none);
    bool good = false;
    try {
      move_to_shared_memory(tensor);
    } catch (const SystemError&) {
      good = tensor.data_ptr() == where && tensor.sum().item().toDouble() == 1000;
    }
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace kolo::test::libtorch
