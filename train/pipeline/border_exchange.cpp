#include "pipeline/border_exchange.hpp"

#include <ATen/Functions.h>

#include <array>
#include <sstream>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/slice.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::train {
namespace {

constexpr int kTensorTag = 0;
constexpr int kShapeTag = 1;

/// Type, whether it has a gradient, number of dimensions, dimensions.
constexpr std::size_t kMostDimensions = 13;
using ShapeMessage = std::array<std::int64_t, 3 + kMostDimensions>;

std::string text_of(const BorderShape& shape) {
  std::ostringstream text;
  text << c10::toString(shape.type) << ' ' << at::IntArrayRef(shape.sizes)
       << (shape.has_gradient ? " with a gradient" : " without a gradient");
  return text.str();
}

}  // namespace

BorderShape BorderShape::of(const at::Tensor& output) {
  return {output.scalar_type(), output.requires_grad(), output.sizes().vec()};
}

BorderExchange::BorderExchange(const Communicator& communicator, MessagePlan plan)
    : communicator_(communicator), plan_(std::move(plan)), next_(plan_.incoming.size()) {}

void BorderExchange::begin(bool is_alike, std::int64_t samples) {
  if (!is_alike) shapes_.clear();
  samples_ = samples;
  std::ranges::fill(next_, 0);
}

std::int64_t BorderExchange::length_of(int micro_batch) const {
  return slice_of(samples_, micro_batch, plan_.shape.micro_batches).length;
}

void BorderExchange::post(std::size_t action) {
  for (int peer = 0; peer < plan_.shape.ranks; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    while (next_[at] < plan_.posted[action][at] && post_next(peer, false)) {
    }
  }
}

bool BorderExchange::post_next(int peer, bool waits) {
  const auto at = static_cast<std::size_t>(peer);
  const BorderMessage& message = plan_.incoming[at].at(next_[at]);
  if (!has_samples(message.micro_batch)) {
    ++next_[at];
    return true;
  }
  auto shape = shapes_.find(border_of(message));
  if (shape == shapes_.end()) {
    // The shape of a gradient is that of this rank's own output, which the peer has had when it sends one.
    if (!waits || !message.is_output) return false;
    shape = shapes_.emplace(border_of(message), receive_shape(message.border)).first;
  }
  ++next_[at];
  if (!message.is_output && !shape->second.has_gradient) return true;
  const at::Tensor tensor = at::empty(shape->second.sizes, shape->second.type);
  received_.emplace(message, recv_async(tensor, peer, communicator_, kTensorTag));
  return true;
}

at::Tensor BorderExchange::receive_for(std::size_t action) {
  const auto message = plan_.needed_by(plan_.actions[action]);
  if (!message || (!message->is_output && !has_gradient(message->border))) return {};
  const int source = plan_.source_of(*message);
  if (source != plan_.rank) {
    while (!received_.contains(*message)) {
      if (!post_next(source, true))
        throw Error("a gradient is needed before its output was sent", {.peer = source});
    }
  }
  const auto found = received_.find(*message);
  const at::Tensor tensor = found->second.wait();
  received_.erase(found);
  return tensor;
}

void BorderExchange::send_output(const Action& action, const at::Tensor& output) {
  const auto message = plan_.sent_by(action);
  if (!message) return;
  const BorderShape shape = BorderShape::of(output);
  const auto [known, is_new] = shapes_.emplace(border_of(*message), shape);
  if (is_new) {
    send_shape(message->border, shape);
  } else if (known->second != shape) {
    throw InvalidArgumentError("stage " + std::to_string(message->border) + " computes " + text_of(shape) +
                                   " where it has computed " + text_of(known->second) +
                                   " of an input of the same shape",
                               {.peer = plan_.rank});
  }
  send(*message, output.detach());
}

void BorderExchange::send_gradient(const Action& action, const at::Tensor& gradient) {
  const auto message = plan_.sent_by(action);
  if (!message || !has_gradient(message->border)) return;
  const BorderShape& shape = shapes_.at(border_of(*message));
  send(*message, gradient.defined() ? gradient : at::zeros(shape.sizes, shape.type));
}

bool BorderExchange::has_gradient(int border) const {
  const auto found = shapes_.find({border, length_of(0)});
  return found != shapes_.end() && found->second.has_gradient;
}

void BorderExchange::send(const BorderMessage& message, const at::Tensor& tensor) {
  std::erase_if(sent_, [](const TensorWork& work) { return work.done(); });
  const int target = plan_.target_of(message);
  if (target == plan_.rank) {
    received_.emplace(message, TensorWork({}, {}, {}, tensor));
    return;
  }
  sent_.push_back(send_async(tensor, target, communicator_, kTensorTag));
}

void BorderExchange::send_shape(int border, const BorderShape& shape) {
  const int target = plan_.rank_of(border + 1);
  if (target == plan_.rank) return;
  if (shape.sizes.size() > kMostDimensions) {
    throw InvalidArgumentError("stage " + std::to_string(border) + " computes a tensor of " +
                                   std::to_string(shape.sizes.size()) + " dimensions, which are more than " +
                                   std::to_string(kMostDimensions),
                               {.peer = plan_.rank});
  }
  std::vector<std::int64_t> numbers{static_cast<std::int64_t>(shape.type), shape.has_gradient ? 1 : 0,
                                    static_cast<std::int64_t>(shape.sizes.size())};
  numbers.insert(numbers.end(), shape.sizes.begin(), shape.sizes.end());
  numbers.resize(std::tuple_size_v<ShapeMessage>);
  sent_.push_back(send_async(at::tensor(numbers), target, communicator_, kShapeTag));
}

BorderShape BorderExchange::receive_shape(int border) {
  ShapeMessage numbers{};
  communicator_.recv(Buffer(numbers), plan_.rank_of(border), kShapeTag);
  BorderShape shape;
  shape.type = static_cast<at::ScalarType>(numbers[0]);
  shape.has_gradient = numbers[1] != 0;
  shape.sizes.assign(numbers.begin() + 3, numbers.begin() + 3 + numbers[2]);
  return shape;
}

void BorderExchange::finish() {
  wait_all(sent_);
}

void BorderExchange::settle() noexcept {
  received_.clear();  // each waits, and swallows its error: the rank has the one that ended the step
  sent_.clear();
  shapes_.clear();
}

}  // namespace kolo::train
