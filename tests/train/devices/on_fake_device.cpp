#include "train/support/models.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test {

/// One for each rank: autograd has one thread a device, in which averages wait for other ranks'.
at::Device device() {
  return {at::kCUDA, static_cast<at::DeviceIndex>(rank_of_thread())};
}

}  // namespace kolo::test
