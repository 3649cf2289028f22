#include "compression/compressed_average.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "compression/numbers.hpp"

namespace kolo::train {

CompressedAverage::CompressedAverage(std::unique_ptr<Codec> codec, bool has_feedback,
                                     std::uint64_t start_after_steps)
    : codec_(std::move(codec)), has_feedback_(has_feedback), start_after_steps_(start_after_steps) {}

std::string CompressedAverage::describe() const {
  return std::string(codec_->name()) + ":feedback=" + (has_feedback_ ? "1" : "0") +
         ":start_after_steps=" + std::to_string(start_after_steps_);
}

HookState CompressedAverage::state() const {
  HookState state;
  feedback_.save(state, kPrefix);
  if (start_after_steps_ > 0) save_count(state, kSteps, steps_);
  return state;
}

void CompressedAverage::set_state(const HookState& state) {
  HookState rest = state;
  const std::uint64_t steps = start_after_steps_ > 0 ? take_count(rest, kSteps) : 0;
  if (has_feedback_) {
    feedback_.load(rest, kPrefix);
  } else {
    GradientHook::set_state(rest);
  }
  steps_ = steps;
}

void CompressedAverage::end_step(bool keep) {
  feedback_.end_step(keep);
  if (keep) ++steps_;
}

std::span<float> CompressedAverage::part_of(int rank, std::span<float> numbers) const {
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t begin = r == 0 ? 0 : ends_[r - 1];
  return numbers.subspan(begin, ends_[r] - begin);
}

void CompressedAverage::average(const GradientBucket& bucket, Communicator& communicator) {
  if (communicator.size() == 1) return;
  if (steps_ < start_after_steps_) {
    communicator.all_reduce(Buffer(bucket.gradients), ReduceOp::average, {.wire = Wire::native});
    return;
  }
  // Whole blocks, but for the last part.
  const std::size_t numbers = bucket.gradients.size(), block = codec_->block();
  const std::size_t blocks = (numbers + block - 1) / block;
  const auto ranks = static_cast<std::size_t>(communicator.size());
  ends_.clear();
  for (std::size_t r = 1; r <= ranks; ++r) ends_.push_back(std::min(numbers, blocks * r / ranks * block));
  sum_up(bucket, communicator);
  give(communicator, bucket.gradients);
  if (has_feedback_) keep_feedback(bucket);
}

void CompressedAverage::scatter(const GradientBucket& bucket, std::span<const std::uint64_t> counts,
                                Communicator& communicator) {
  if (communicator.size() == 1) return;
  ends_.resize(counts.size());
  std::partial_sum(counts.begin(), counts.end(), ends_.begin());
  if (steps_ < start_after_steps_) {
    const std::span<float> mine = part_of(communicator.rank(), bucket.gradients);
    decoded_.resize(mine.size());
    communicator.reduce_scatter(ConstBuffer(bucket.gradients), Buffer(decoded_), ReduceOp::average, counts,
                                {.wire = Wire::native});
    std::ranges::copy(decoded_, mine.begin());
    return;
  }
  sum_up(bucket, communicator);
  if (!has_feedback_) return;
  std::ranges::fill(part_of(communicator.rank(), sent_), 0.0f);  // nothing was left out
  keep_feedback(bucket);
}

/// `mine` is this rank's part of `sent_`.
void CompressedAverage::add_feedback(const GradientBucket& bucket, std::span<const float> mine) {
  const auto my_begin = static_cast<std::size_t>(mine.data() - sent_.data());
  const std::size_t begin = bucket.contributes ? 0 : my_begin;
  const std::size_t end = bucket.contributes ? sent_.size() : my_begin + mine.size();
  for (const GradientPart& part : bucket.parts) {
    const auto kept = feedback_.kept(part.name, part.count);
    const auto pending = feedback_.pending(part.name, part.count);
    const auto within = [&](std::size_t at) {
      return std::clamp<std::size_t>(at, part.offset, part.offset + part.count) - part.offset;
    };
    std::ranges::copy(kept, pending.begin());
    for (std::size_t i = within(begin); i < within(end); ++i) {
      sent_[part.offset + i] += bucket.loss_scale * kept[i];
      pending[i] = 0;
    }
  }
}

void CompressedAverage::keep_feedback(const GradientBucket& bucket) {
  const float unscale = 1 / bucket.loss_scale;
  for (const GradientPart& part : bucket.parts) {
    const auto pending = feedback_.pending(part.name, part.count);
    for (std::size_t i = 0; i < part.count; ++i) pending[i] += unscale * sent_[part.offset + i];
  }
}

/// Puts the average of this rank's part in place. `sent_` then holds what encoding left out of the other
/// ranks' parts.
void CompressedAverage::sum_up(const GradientBucket& bucket, Communicator& communicator) {
  const int me = communicator.rank(), ranks = communicator.size();
  sent_.assign(bucket.gradients.begin(), bucket.gradients.end());
  const std::span<float> sent = sent_;
  const std::span<float> mine = part_of(me, sent);
  if (has_feedback_) add_feedback(bucket, mine);
  const std::size_t my_bytes = codec_->bytes_for(mine.size());
  decoded_.resize(sent.size());

  send_bytes_.assign(static_cast<std::size_t>(ranks), 0);
  receive_bytes_.assign(static_cast<std::size_t>(ranks), my_bytes);
  receive_bytes_[static_cast<std::size_t>(me)] = 0;
  std::size_t bytes = 0;
  for (int r = 0; r < ranks; ++r) {
    if (r == me) continue;
    send_bytes_[static_cast<std::size_t>(r)] = codec_->bytes_for(part_of(r, sent).size());
    bytes += send_bytes_[static_cast<std::size_t>(r)];
  }
  outgoing_.resize(bytes);
  incoming_.resize(my_bytes * static_cast<std::size_t>(ranks - 1));
  std::byte* out = outgoing_.data();
  for (int r = 0; r < ranks; ++r) {
    if (r == me) continue;
    const std::span<float> part = part_of(r, sent);
    codec_->encode(part, out);
    if (has_feedback_) {
      const std::span<float> decoded = part_of(r, decoded_);
      codec_->decode(out, decoded);
      for (std::size_t i = 0; i < part.size(); ++i) part[i] -= decoded[i];
    }
    out += send_bytes_[static_cast<std::size_t>(r)];
  }
  communicator.all_to_all(ConstBuffer(outgoing_.data(), outgoing_.size(), DType::uint8),
                          Buffer(incoming_.data(), incoming_.size(), DType::uint8), send_bytes_,
                          receive_bytes_);

  // The sum of my part, in the order of the ranks.
  const std::span<float> sum = part_of(me, bucket.gradients);
  const std::span<float> decoded = part_of(me, decoded_);
  std::ranges::fill(sum, 0.0f);
  const std::byte* in = incoming_.data();
  for (int r = 0; r < ranks; ++r) {
    if (r == me) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
      continue;
    }
    codec_->decode(in, decoded);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += decoded[i];
    in += my_bytes;
  }
  for (float& number : sum) number /= static_cast<float>(ranks);
}

/// Gives all ranks the averages of the parts, and puts what encoding left out of this one's into `sent_`.
void CompressedAverage::give(Communicator& communicator, std::span<float> result) {
  const int me = communicator.rank(), ranks = communicator.size();
  const std::span<float> sum = part_of(me, result);
  const std::size_t my_bytes = codec_->bytes_for(sum.size());
  std::size_t bytes = 0;
  for (int r = 0; r < ranks; ++r) {
    receive_bytes_[static_cast<std::size_t>(r)] = codec_->bytes_for(part_of(r, result).size());
    bytes += receive_bytes_[static_cast<std::size_t>(r)];
  }
  outgoing_.resize(my_bytes);
  incoming_.resize(bytes);
  codec_->encode(sum, outgoing_.data());
  communicator.all_gather(ConstBuffer(outgoing_.data(), my_bytes, DType::uint8),
                          Buffer(incoming_.data(), bytes, DType::uint8), receive_bytes_);
  if (has_feedback_) {
    const std::span<float> mine = part_of(me, sent_), decoded = part_of(me, decoded_);
    codec_->decode(outgoing_.data(), decoded);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<float>(ranks) * (sum[i] - decoded[i]);
  }
  const std::byte* in = incoming_.data();
  for (int r = 0; r < ranks; ++r) {
    codec_->decode(in, part_of(r, result));
    in += receive_bytes_[static_cast<std::size_t>(r)];
  }
}

}  // namespace kolo::train
