#include "train/support/models.hpp"

namespace kolo::test {

at::Device device() {
  return at::kCPU;
}

}  // namespace kolo::test
