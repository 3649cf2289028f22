// FlatTensors: the values of many tensors side by side, to be sent and averaged in one call.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/work.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

/// A flat tensor for each element type, in memory that the ranks of a host share. Zeros at first.
class FlatTensors {
 public:
  explicit FlatTensors(std::span<const NamedTensor> like);
  /// Waits for what is under way.
  ~FlatTensors();
  FlatTensors(const FlatTensors&) = delete;
  FlatTensors& operator=(const FlatTensors&) = delete;

  /// One for each tensor, of its shape.
  const std::vector<at::Tensor>& views() const noexcept { return views_; }
  const std::vector<at::Tensor>& flats() const noexcept { return flats_; }
  std::uint64_t bytes() const;
  /// Whether all values are free of infinities and NaN.
  bool are_finite() const;

  /// Collective: begins to average over all ranks, in place. finish() waits for it, returns how long it took,
  /// and throws the first error.
  void start_average(Communicator& communicator, const CallOptions& options);
  std::chrono::nanoseconds finish();
  void average(Communicator& communicator, const CallOptions& options) {
    start_average(communicator, options);
    finish();
  }

 private:
  std::vector<at::Tensor> flats_;
  std::vector<at::Tensor> views_;
  std::vector<Work> works_;
};

/// Copies the tensors' values. Where a tensor has another type or shape than its view, this rank ends the
/// communicator on all ranks and throws InvalidArgumentError with the tensor's name.
void pack(std::span<const NamedTensor> from, const FlatTensors& to, Communicator& communicator);
void unpack(const FlatTensors& from, std::span<const NamedTensor> to);

/// For checkpoints. load() throws std::runtime_error where the archive has other element types or sizes.
void save_flats(const FlatTensors& flats, torch::serialize::OutputArchive& archive, const std::string& name);
void load_flats(const FlatTensors& flats, torch::serialize::InputArchive& archive, const std::string& name);

}  // namespace kolo::train
