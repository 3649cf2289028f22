#include "fashion_mnist/data.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <stdexcept>

#include "fashion_mnist/idx.hpp"

namespace fashion_mnist {
namespace {

// Of the 60,000 training images, with pixels from 0 to 1.
constexpr double kMean = 0.2860;
constexpr double kDeviation = 0.3530;

}  // namespace

Dataset load(const std::string& folder, bool training, std::int64_t limit) {
  const std::string stem = folder + (training ? "/train" : "/t10k");
  IdxArray images = read_idx(stem + "-images-idx3-ubyte.gz");
  IdxArray labels = read_idx(stem + "-labels-idx1-ubyte.gz");
  if (images.dimensions.size() != 3 || labels.dimensions.size() != 1 ||
      images.dimensions[0] != labels.dimensions[0]) {
    throw std::runtime_error(stem + ": images and labels do not belong together");
  }
  std::int64_t count = images.dimensions[0];
  if (limit > 0) count = std::min(count, limit);
  const at::Tensor pixels =
      at::from_blob(images.values.data(), {count, 1, images.dimensions[1], images.dimensions[2]}, at::kByte);
  const at::Tensor classes = at::from_blob(labels.values.data(), {count}, at::kByte);
  return {pixels.to(at::kFloat).div_(255.0).sub_(kMean).div_(kDeviation), classes.to(at::kLong)};
}

}  // namespace fashion_mnist
