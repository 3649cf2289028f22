// Fashion-MNIST as tensors: 60,000 and 10,000 grey images of 28 x 28, ten kinds of clothing.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <string>

namespace fashion_mnist {

struct Dataset {
  at::Tensor images;  ///< float32 [n, 1, 28, 28], mean 0 and deviation 1 over the training images
  at::Tensor labels;  ///< int64 [n]

  std::int64_t size() const { return labels.size(0); }
  Dataset slice(std::int64_t begin, std::int64_t end) const {
    return {images.slice(0, begin, end), labels.slice(0, begin, end)};
  }
};

/// Where Debian's dataset-fashion-mnist puts the files.
inline constexpr const char* kDefaultFolder = "/usr/share/datasets/fashion-mnist";

/// Reads the training (or the test) images and labels from `folder`; at most `limit` of them, all where it is
/// 0. Throws std::runtime_error that names the file at fault.
Dataset load(const std::string& folder, bool training, std::int64_t limit = 0);

}  // namespace fashion_mnist
