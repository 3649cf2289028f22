// Every collective on a device's memory, over every transport: with sizes that are zero, one, odd and uneven,
// and in several pieces.
#include <memory>
#include <string>

#include "base/config.hpp"
#include "device/fake_cuda.hpp"
#include "support/cases.hpp"
#include "support/cluster.hpp"
#include "support/transports.hpp"
#include "support/types.hpp"

namespace kolo::test {
namespace {

/// Memory of the first device.
ArrayMemory on_device(std::size_t bytes) {
  void* const shown = fake_cuda_allocate(0, bytes);
  std::shared_ptr<std::byte[]> own(static_cast<std::byte*>(fake_cuda_inside(shown)),
                                   [shown](std::byte*) { fake_cuda_free(shown); });
  return {std::move(own), static_cast<std::byte*>(shown), {DeviceKind::cuda, 0}};
}

void run_all_collectives(Communicator& communicator, std::uint64_t count, DType dtype, ReduceOp op) {
  for (std::size_t i = 0; i < schedule::kCollectives.size(); ++i) {
    const auto collective = static_cast<schedule::Collective>(i);
    if (collective == schedule::Collective::send_recv) continue;
    const algorithms::Algorithm* any = nullptr;
    for (const algorithms::Algorithm& algorithm : algorithms::algorithms())
      if (algorithm.collective == collective && any == nullptr && !algorithm.even_parts_only &&
          !algorithm.out_of_place_only &&
          algorithms::supports(algorithm, {collective, 0, communicator.size(), 0, {}}).ok())
        any = &algorithm;
    if (any == nullptr) continue;
    // NCCL is for calls that name no algorithm.
    const std::string named(config().gpu == "nccl" ? "" : any->name);
    run(collective, {communicator, {.algorithm = named}, dtype, op, on_device}, count);
  }
}

class DevicesOver : public ::testing::TestWithParam<const char*> {};

TEST_P(DevicesOver, EveryCollectiveAtEverySize) {
  for (const int size : {1, 2, 3, 4}) {
    expect_ranks({.size = size, .transport = GetParam()}, [](Communicator& communicator) {
      for (const std::uint64_t count : {0, 1, 7, 1031})
        run_all_collectives(communicator, count, DType::float32, ReduceOp::sum);
    });
  }
}

TEST_P(DevicesOver, LongBuffersGoInPieces) {
  fake_cuda_delay(300, 7);
  expect_ranks({.size = 3, .transport = GetParam()}, [](Communicator& communicator) {
    run_all_collectives(communicator, 1'100'003, DType::float64, ReduceOp::sum);
  });
  fake_cuda_delay(0, 1);
}

/// Whatever carries the bytes.
TEST(Devices, TakeEveryElementTypeAndReduction) {
  expect_ranks({.size = 3, .transport = "inproc"}, [](Communicator& communicator) {
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : kReduceOps)
        if (knows(dtype, op)) run_all_collectives(communicator, 61, dtype, op);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Device, DevicesOver, kTransports, kTransportNames);

}  // namespace
}  // namespace kolo::test
