// The three ways for training images to reach the ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "fashion_mnist/data.hpp"
#include "fashion_mnist/options.hpp"
#include "kolo/communicator.hpp"
#include "kolo/train/data.hpp"

namespace fashion_mnist {

/// Gives a rank its part of each step's batch: images, labels.
class Feed {
 public:
  virtual ~Feed() = default;
  virtual std::int64_t steps_per_epoch() const = 0;
  /// From the next epoch on: images of all ranks. Only a sampler has more than one size.
  virtual void set_batch(std::int64_t) {}
  /// Only a sampler begins at a later step.
  virtual void begin_epoch(int epoch, std::int64_t step) = 0;
  virtual kolo::Batch next() = 0;
  /// The images of the last batch, where a sampler has chosen them.
  virtual std::vector<std::int64_t> samples() const { return {}; }
};

/// Collective. `options.reader` is
/// - sampler: every rank has all images, and takes its own;
/// - shards: every rank reads files of its own, which rank 0 writes to `options.shards` where they are
/// missing;
/// - scatter: rank 0 has all images and sends each rank its part.
/// `training` is called on the ranks that need all images.
std::unique_ptr<Feed> make_feed(const Options& options, kolo::Communicator& communicator,
                                const std::function<Dataset()>& training);

}  // namespace fashion_mnist
