// CompressedAverage: the gradient hook over any Codec.
#include <algorithm>
#include <numeric>

#include "compression/codec.hpp"
#include "compression/keeping_hook.hpp"
#include "compression/options.hpp"

namespace kolo {
namespace train {
namespace {

/// Every rank owns a part of the bucket. It gets the other ranks' gradients there, encoded (all_to_all), adds
/// them in float32 in the order of the ranks, its own as they are, and gives the average, encoded, to all
/// (all_gather): H. Tang et al., "1-bit Adam", ICML 2021, section 4.2 ("compressed_allreduce"). With feedback
/// each rank keeps what its encoding has left out: of its gradients in the other ranks' parts, and of the
/// average in its own part, where it counts as many times as there are ranks. A rank without data leaves the
/// former alone and goes on with the latter, as the other ranks need its averages.
class CompressedAverage final : public KeepingHook {
 public:
  explicit CompressedAverage(const CompressedOptions& options);

  std::string describe() const override { return specification_of(std::string(codec_->name()), options_); }
  using GradientHook::check;
  void check(std::span<const GradientPart> parameters) const override {
    if (options_.feedback) kinds_[0].check(parameters);
  }
  void average(const GradientBucket& bucket, Communicator& communicator) override;
  /// The first half of average(): each part of `counts` is encoded for itself, and averages are not.
  bool can_scatter() const override { return true; }
  void scatter(const GradientBucket& bucket, std::span<const std::uint64_t> counts,
               Communicator& communicator) override;

 private:
  std::span<float> part_of(int rank, std::span<float> numbers) const;
  void add_feedback(const GradientBucket& bucket, std::span<const float> mine);
  void keep_feedback(const GradientBucket& bucket);
  void sum_up(const GradientBucket& bucket, Communicator& communicator);
  void give(Communicator& communicator, std::span<float> result);

  const CompressedOptions options_;
  const std::unique_ptr<Codec> codec_;
  // Of one bucket; kept for the next one.
  std::vector<std::size_t> ends_;  ///< of the ranks' parts
  std::vector<float> sent_;        ///< gradients with feedback, then what encoding left out of them
  std::vector<float> decoded_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  std::vector<std::uint64_t> send_bytes_;
  std::vector<std::uint64_t> receive_bytes_;
};

CompressedAverage::CompressedAverage(const CompressedOptions& options)
    : KeepingHook(options.feedback ? Prefixes{"left out of "} : Prefixes{}, options.start_after_steps > 0),
      options_(options),
      codec_(make_codec(options.format)) {}

std::span<float> CompressedAverage::part_of(int rank, std::span<float> numbers) const {
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t begin = r == 0 ? 0 : ends_[r - 1];
  return numbers.subspan(begin, ends_[r] - begin);
}

void CompressedAverage::average(const GradientBucket& bucket, Communicator& communicator) {
  if (communicator.size() == 1) return;
  if (steps_ < options_.start_after_steps) {
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
  if (options_.feedback) keep_feedback(bucket);
}

void CompressedAverage::scatter(const GradientBucket& bucket, std::span<const std::uint64_t> counts,
                                Communicator& communicator) {
  if (communicator.size() == 1) return;
  ends_.resize(counts.size());
  std::partial_sum(counts.begin(), counts.end(), ends_.begin());
  if (steps_ < options_.start_after_steps) {
    const std::span<float> mine = part_of(communicator.rank(), bucket.gradients);
    decoded_.resize(mine.size());
    communicator.reduce_scatter(ConstBuffer(bucket.gradients), Buffer(decoded_), ReduceOp::average, counts,
                                {.wire = Wire::native});
    std::ranges::copy(decoded_, mine.begin());
    return;
  }
  sum_up(bucket, communicator);
  if (!options_.feedback) return;
  std::ranges::fill(part_of(communicator.rank(), sent_), 0.0f);  // nothing was left out
  keep_feedback(bucket);
}

/// `mine` is this rank's part of `sent_`.
void CompressedAverage::add_feedback(const GradientBucket& bucket, std::span<const float> mine) {
  const auto my_begin = static_cast<std::size_t>(mine.data() - sent_.data());
  const std::size_t begin = bucket.contributes ? 0 : my_begin;
  const std::size_t end = bucket.contributes ? sent_.size() : my_begin + mine.size();
  for (const GradientPart& part : bucket.parts) {
    const auto kept = kinds_[0].kept(part.name, part.count);
    const auto pending = kinds_[0].pending(part.name, part.count);
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
    const auto pending = kinds_[0].pending(part.name, part.count);
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
  if (options_.feedback) add_feedback(bucket, mine);
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
    if (options_.feedback) {
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
  if (options_.feedback) {
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

}  // namespace
}  // namespace train

std::shared_ptr<GradientHook> make_compressed_hook(const CompressedOptions& options) {
  return std::make_shared<train::CompressedAverage>(options);
}

}  // namespace kolo
