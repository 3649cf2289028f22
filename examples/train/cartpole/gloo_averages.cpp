#include "cartpole/averages.hpp"

#ifdef KOLO_WITH_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

#include <cstdint>
#include <vector>

namespace cartpole {

#ifdef KOLO_WITH_GLOO
namespace {

/// As PyTorch's DistributedDataParallel averages a bucket.
class GlooAverages final : public Averages {
 public:
  explicit GlooAverages(kolo::Communicator& communicator) : size_(communicator.size()) {
    const char* const host = "127.0.0.1";
    const bool is_first = communicator.rank() == 0;
    c10d::TCPStoreOptions options;
    options.isServer = true;
    options.port = 0;  // a free one
    options.waitWorkers = false;
    c10::intrusive_ptr<c10d::TCPStore> store;
    std::vector<std::uint64_t> port(1, 0);
    if (is_first) {
      store = c10::make_intrusive<c10d::TCPStore>(host, options);
      port[0] = store->getPort();
    }
    communicator.broadcast(kolo::Buffer(port), 0);
    options.isServer = false;
    options.port = static_cast<std::uint16_t>(port[0]);
    if (!is_first) store = c10::make_intrusive<c10d::TCPStore>(host, options);
    const auto settings = c10d::ProcessGroupGloo::Options::create();
    settings->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(host));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, communicator.rank(), size_, settings);
  }

  void average(at::Tensor& gradients) override {
    std::vector<at::Tensor> tensors{gradients};
    group_->allreduce(tensors, {})->wait();
    gradients.div_(size_);
  }

 private:
  int size_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

std::unique_ptr<Averages> make_gloo_averages(kolo::Communicator& communicator) {
  return std::make_unique<GlooAverages>(communicator);
}
#else
std::unique_ptr<Averages> make_gloo_averages(kolo::Communicator&) {
  return nullptr;
}
#endif

}  // namespace cartpole
