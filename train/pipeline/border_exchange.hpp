// BorderExchange: moves outputs and gradients between the stages of a pipeline while ranks compute.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/tensor.hpp"
#include "pipeline/schedule.hpp"

namespace kolo::train {

/// What the two sides of a border know of its tensors.
struct BorderShape {
  at::ScalarType type = at::kFloat;
  bool has_gradient = false;
  std::vector<std::int64_t> sizes;
  bool operator==(const BorderShape&) const = default;

  static BorderShape of(const at::Tensor& output);
};

/// Not thread-safe. Borrows memory until finish() or settle() has returned.
class BorderExchange {
 public:
  BorderExchange(const Communicator& communicator, MessagePlan plan);
  ~BorderExchange() { settle(); }
  BorderExchange(const BorderExchange&) = delete;
  BorderExchange& operator=(const BorderExchange&) = delete;

  const MessagePlan& plan() const noexcept { return plan_; }

  /// Before a step. All arguments are the same on all ranks. `is_alike`: shapes are those of the last step.
  /// If not, the first output of each border and length of a micro-batch brings its shape along.
  void begin(bool is_alike, std::int64_t samples);
  /// Whether the batch has samples in this micro-batch.
  bool has_samples(int micro_batch) const { return length_of(micro_batch) > 0; }
  /// Posts the receives that the plan has for an action, as far as their shapes are known.
  void post(std::size_t action);
  /// Waits for what an action needs; undefined where it needs nothing, or a gradient that does not exist.
  at::Tensor receive_for(std::size_t action);
  /// Sends an output (which brings about its shape) or a gradient, in the background. Throws
  /// InvalidArgumentError for an output that is not like the border's others.
  void send_output(const Action& action, const at::Tensor& output);
  /// An undefined gradient is zero. Sends nothing where the border has none.
  void send_gradient(const Action& action, const at::Tensor& gradient);
  /// Whether gradients come back over a border, where all micro-batches are alike.
  bool has_gradient(int border) const;
  /// Waits until all messages have left.
  void finish();
  /// The same after a failure: swallows errors, and forgets all messages.
  void settle() noexcept;

 private:
  using Border = std::pair<int, std::int64_t>;  ///< with the length of a micro-batch

  std::int64_t length_of(int micro_batch) const;
  Border border_of(const BorderMessage& message) const {
    return {message.border, length_of(message.micro_batch)};
  }
  /// Posts the next receive from a peer. If the shape is not known: waits for it, or posts nothing and
  /// returns false.
  bool post_next(int peer, bool waits);
  BorderShape receive_shape(int border);
  void send_shape(int border, const BorderShape& shape);
  void send(const BorderMessage& message, const at::Tensor& tensor);

  Communicator communicator_;
  MessagePlan plan_;
  std::int64_t samples_ = 0;
  std::map<Border, BorderShape> shapes_;  ///< as far as this rank knows them
  std::vector<std::size_t> next_;         ///< of each peer's incoming messages: the first that is not posted
  std::map<BorderMessage, TensorWork> received_;
  std::vector<TensorWork> sent_;  ///< shapes too
};

}  // namespace kolo::train
