// Models on a CUDA device: what a rank is told that has its tensors in the wrong place, and in which order
// things happen on streams.
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <string>
#include <thread>
#include <vector>

#include "device/fake_nccl.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/sync_batch_norm.hpp"
#include "kolo/train/tensor.hpp"
#include "libtorch/device.hpp"
#include "train/devices/fake_torch.hpp"
#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::devices {
namespace {

using torch::nn::Linear;
using torch::nn::Sequential;
using Net = torch::nn::SequentialImpl;

TEST(DeviceTensors, AreBuffersOfCollectives) {
  run_all(2, [](Communicator& communicator) {
    const double mine = communicator.rank() + 1;
    const at::Tensor tensor = at::full({2, 300}, mine, device());
    const auto index = static_cast<std::int16_t>(communicator.rank());
    EXPECT_EQ(buffer_of(tensor).device, (Device{DeviceKind::cuda, index}));
    communicator.all_reduce(tensor);
    EXPECT_TRUE(at::equal(tensor.cpu(), at::full({2, 300}, 3)));
    const at::Tensor columns = at::full({300, 2}, mine, device()).t();
    EXPECT_TRUE(at::equal(all_reduce_async(columns, communicator).wait().cpu(), at::full({2, 300}, 3)));
    const at::Tensor all = at::empty({2, 600}, device());
    all_gather_async(columns, all, communicator).wait();
    EXPECT_TRUE(at::equal(all.cpu(), at::full({2, 600}, 3)));
    const at::Tensor half = at::empty({600}, device());
    reduce_scatter_async(all, half, communicator, ReduceOp::average).wait();
    EXPECT_TRUE(at::equal(half.cpu(), at::full({600}, 3)));
    const at::Tensor sent = at::full({5}, mine, device());
    const int other = 1 - communicator.rank();
    TensorWork send = send_async(sent, other, communicator);
    EXPECT_EQ(recv_async(at::empty({5}, device()), other, communicator).wait()[4].item<float>(), other + 1);
    send.wait();
    broadcast_async(sent, 1, communicator).wait();
    EXPECT_EQ(sent.sum().item<float>(), 10);
  });
}

TEST(DeviceStreams, CallsBeginAfterWhatTheCurrentStreamHolds) {
  run_all(2, [](Communicator& communicator) {
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    const c10::StreamGuard current(guard.getStreamFromGlobalPool(device()));
    const at::Tensor tensor = at::zeros({100}, device());
    for (int round = 1; round <= 3; ++round) {
      fill_later(tensor, round);
      all_reduce_async(tensor, communicator).wait();
      EXPECT_EQ(tensor.cpu()[99].item<float>(), 2 * round);
    }
  });
}

TEST(DeviceStreams, AnotherThreadGoesOnBehindAPoint) {
  const at::Tensor tensor = at::zeros({100}, device());
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  const c10::StreamGuard current(guard.getStreamFromGlobalPool(device()));
  fill_later(tensor, 7);
  const train::StreamPoint point(device());
  float seen = 0;
  std::thread([&] { seen = point.go_on([&] { return tensor[0].item<float>(); }); }).join();
  EXPECT_EQ(seen, 7);
}

TEST(DeviceModels, OnSeveralDevicesAreRefusedWithBothNames) {
  const std::string said = error_of_all(2, [](Communicator& communicator) {
    Sequential model(Linear(3, 4), Linear(4, 1));
    model->ptr<torch::nn::LinearImpl>(1)->to(device());
    const DistributedDataParallel<Net> parallel(model, communicator);
  });
  EXPECT_NE(said.find("'0.weight' is on cpu and '1.weight' on cuda:0"), std::string::npos) << said;
}

TEST(DeviceModels, OnOtherDevicesThanOtherRanksModelsAreRefused) {
  const std::string said = error_of_all(2, [](Communicator& communicator) {
    Sequential model(Linear(3, 4));
    if (communicator.rank() == 1) model->to(device());
    const DistributedDataParallel<Net> parallel(model, communicator);
  });
  EXPECT_NE(said.find("on a GPU"), std::string::npos) << said;
}

TEST(DeviceModels, ThatMoveAfterwardsAreRefusedWithBothNames) {
  const std::string said = error_of_all(2, [](Communicator& communicator) {
    Sequential model(Linear(3, 4));
    DistributedDataParallel<Net> parallel(model, communicator);
    model->to(device());
    parallel(at::ones({2, 3}, device()));
  });
  EXPECT_NE(said.find("'0.weight' is on cuda:0 and was on cpu"), std::string::npos) << said;
}

TEST(DeviceModels, OnOtherKindsOfDevicesAreRefused) {
  const std::string said = error_of_all(1, [](Communicator& communicator) {
    Sequential model(Linear(3, 4));
    model->register_parameter("shape", at::empty({2}, at::kMeta));
    const DistributedDataParallel<Net> parallel(model, communicator);
  });
  EXPECT_NE(said.find("parameter 'shape' is on meta"), std::string::npos) << said;
}

/// Parameters after a few steps.
std::vector<at::Tensor> trained(bool on_device, SparseMethod method) {
  std::vector<at::Tensor> result;
  run_all(2, [&](Communicator& communicator) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(9, 3).sparse(true));
    Sequential model(table, Linear(3, 4), SyncBatchNorm(torch::nn::BatchNormOptions(4), communicator),
                     Linear(4, 2));
    fill(*model, 1);
    const at::Device where = on_device ? device() : at::Device(at::kCPU);
    model->to(where);
    auto options = small_buckets();
    options.sparse_method = method;
    options.check_parameters_every = 2;
    DistributedDataParallel<Net> parallel(model, communicator, options);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const at::Tensor rows = at::tensor({step, 2 * communicator.rank() + 1, 3}, at::kLong).to(where);
      parallel(rows).square().sum().backward();
      optimizer.step();
    }
    if (communicator.rank() != 0) return;
    for (const at::Tensor& tensor : model->parameters()) result.push_back(tensor.detach().cpu());
    for (const at::Tensor& tensor : model->buffers()) result.push_back(tensor.cpu());
  });
  return result;
}

TEST(DeviceModels, WithTablesAndBatchNormalizationTrainAsOnTheCpu) {
  for (const SparseMethod method : {SparseMethod::all_reduce, SparseMethod::all_gather}) {
    const auto there = trained(true, method), here = trained(false, method);
    ASSERT_EQ(there.size(), here.size());
    for (std::size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(at::allclose(there[i], here[i])) << i;
  }
  EXPECT_EQ(fake_nccl_aborts(), 0);
}

}  // namespace
}  // namespace kolo::test::devices
