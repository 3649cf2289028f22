// PowerSgd: the gradient hook that sends matrices as products of thin ones.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compression/keeping_hook.hpp"
#include "compression/low_rank.hpp"
#include "compression/options.hpp"
#include "kolo/error.hpp"

namespace kolo {
namespace train {
namespace {

struct Size {
  std::uint64_t rows, columns;
};

Size size_of_matrix(const GradientPart& part) {
  if (part.shape.size() < 2 || part.count == 0) return {part.count, 1};
  const auto rows = static_cast<std::uint64_t>(part.shape.front());
  return {rows, part.count / rows};
}

bool saves_bytes(const Size& size, std::uint64_t rank) {
  return 2 * (size.rows + size.columns) * rank <= size.rows * size.columns;
}

/// The largest rank with which it saves bytes.
std::uint64_t largest_rank(const Size& size) {
  return size.rows * size.columns / (2 * (size.rows + size.columns));
}

/// Uniform between -1 and 1, the same for the same arguments on all machines (the mixing function of
/// SplitMix64).
float random_number(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = seed + (index + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  x ^= x >> 31;
  return static_cast<float>(static_cast<std::int32_t>(x >> 32)) * 0x1p-31f;
}

/// T. Vogels, S. Karimireddy, M. Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
/// Optimization", NeurIPS 2019, algorithms 1 and 2: one step of power iteration a training step, from where
/// the last one ended, with error feedback. A parameter is a matrix of its first dimension by all others.
/// Where (rows + columns) rank > rows columns / 2 it travels as it is, as vectors do. A bucket takes two
/// all_reduces: of the left factors and of what travels as it is, then of the right factors.
class PowerSgd final : public KeepingHook {
 public:
  /// Throws InvalidArgumentError for options out of their range.
  explicit PowerSgd(const PowerSgdOptions& options);

  std::string describe() const override { return specification_of("power_sgd", options_); }
  void check(std::span<const GradientPart> parameters) const override;
  using GradientHook::check;
  void average(const GradientBucket& bucket, Communicator& communicator) override;

 private:
  /// A parameter that travels as two factors.
  struct Matrix {
    const GradientPart* part;
    std::span<float> gradient;  ///< with feedback; what is left out of it in the end
    Vectors left;
    Vectors right;  ///< at first the start, then this rank's own
  };
  /// One that travels as it is, behind the left factors.
  struct Whole {
    const GradientPart* part;
    std::size_t offset;
  };

  void lay_out(const GradientBucket& bucket);
  void start_right_factor(const std::string& parameter, const Vectors& factor);

  PowerSgdOptions options_;
  Feedback& left_out_ = kinds_[0];
  Feedback& right_factors_ = kinds_[1];
  // Of one bucket; kept for the next one.
  std::vector<Matrix> matrices_;
  std::vector<Whole> whole_;
  std::vector<float> gradients_;  ///< of the matrices, where what they leave out is not kept
  std::vector<float> left_;       ///< factors, then what travels as it is
  std::vector<float> right_;
  std::vector<float> average_right_;
};

PowerSgd::PowerSgd(const PowerSgdOptions& options)
    : KeepingHook({"left out of ", "right factor of "}), options_(options) {
  if (options.rank < 1)
    throw InvalidArgumentError("power_sgd: a rank of " + std::to_string(options.rank) + " is below 1", {});
}

void PowerSgd::check(std::span<const GradientPart> parameters) const {
  left_out_.check(parameters);
  std::uint64_t largest = 0;
  for (const GradientPart& part : parameters) largest = std::max(largest, largest_rank(size_of_matrix(part)));
  if (static_cast<std::uint64_t>(options_.rank) <= largest) return;
  throw InvalidArgumentError("power_sgd: with a rank of " + std::to_string(options_.rank) +
                                 " no parameter of this model takes fewer bytes; " +
                                 (largest == 0 ? "none of its matrices is large enough"
                                               : "the largest rank of use is " + std::to_string(largest)),
                             {});
}

/// Says which parameters travel as two factors, and where those and the rest lie in the messages.
void PowerSgd::lay_out(const GradientBucket& bucket) {
  const auto rank = static_cast<std::uint64_t>(options_.rank);
  matrices_.clear();
  whole_.clear();
  const bool has_feedback = options_.feedback && bucket.contributes;
  std::size_t gradients = 0, left = 0, right = 0, whole = 0;
  for (const GradientPart& part : bucket.parts) {
    const Size size = size_of_matrix(part);
    if (steps_ < options_.start_after_steps || !saves_bytes(size, rank)) {
      whole_.push_back({&part, whole});
      whole += part.count;
      continue;
    }
    matrices_.push_back({&part, {}, {{}, size.rows}, {{}, size.columns}});
    if (!has_feedback) gradients += part.count;
    left += size.rows * rank;
    right += size.columns * rank;
  }
  gradients_.resize(gradients);
  left_.resize(left + whole);
  right_.resize(right);
  for (Whole& part : whole_) part.offset += left;
  gradients = left = right = 0;
  const auto next = [](std::vector<float>& numbers, std::size_t& at, std::size_t count) {
    return std::span(numbers).subspan(std::exchange(at, at + count), count);
  };
  for (Matrix& matrix : matrices_) {
    const std::uint64_t count = matrix.part->count;
    matrix.gradient =
        has_feedback ? left_out_.pending(matrix.part->name, count) : next(gradients_, gradients, count);
    matrix.left.numbers = next(left_, left, matrix.left.length * rank);
    matrix.right.numbers = next(right_, right, matrix.right.length * rank);
  }
}

/// Of length 1 and orthogonal to each other, so that what is multiplied with them keeps its magnitude: where
/// the last step ended. A vector that ended at zero, as all are before the first step, is drawn.
void PowerSgd::start_right_factor(const std::string& parameter, const Vectors& factor) {
  if (options_.warm_start) {
    std::ranges::copy(right_factors_.kept(parameter, factor.numbers.size()), factor.numbers.begin());
  } else {
    std::ranges::fill(factor.numbers, 0.0f);
  }
  std::uint64_t seed = options_.seed + (options_.warm_start ? 0 : steps_);
  for (const char c : parameter) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  for (std::size_t c = 0; c < factor.count(); ++c) {
    const auto vector = factor[c];
    if (std::ranges::any_of(vector, [](float number) { return number != 0; })) continue;
    for (std::size_t i = 0; i < vector.size(); ++i) vector[i] = random_number(seed, c * vector.size() + i);
  }
  orthonormalize(factor);
}

void PowerSgd::average(const GradientBucket& bucket, Communicator& communicator) {
  if (communicator.size() == 1) return;
  // The hook's format is all that rounds: `left out` knows of no other.
  const CallOptions as_it_is{.wire = Wire::native};
  lay_out(bucket);
  const bool has_feedback = options_.feedback && bucket.contributes;
  for (const Matrix& matrix : matrices_) {
    const GradientPart& part = *matrix.part;
    std::span<const float> left_out;
    if (has_feedback) left_out = left_out_.kept(part.name, part.count);
    start_right_factor(part.name, matrix.right);
    form_and_multiply(bucket.gradients.subspan(part.offset, part.count), 1 / bucket.loss_scale, left_out,
                      matrix.right, matrix.gradient, matrix.left);
  }
  for (const Whole& whole : whole_) {
    std::ranges::copy(bucket.gradients.subspan(whole.part->offset, whole.part->count),
                      left_.begin() + static_cast<std::ptrdiff_t>(whole.offset));
  }
  communicator.all_reduce(Buffer(left_), ReduceOp::average, as_it_is);
  for (const Whole& whole : whole_) {
    std::ranges::copy(std::span(left_).subspan(whole.offset, whole.part->count),
                      bucket.gradients.begin() + static_cast<std::ptrdiff_t>(whole.part->offset));
  }
  if (matrices_.empty()) return;

  for (const Matrix& matrix : matrices_) {
    orthonormalize(matrix.left);
    multiply_transposed(matrix.gradient, matrix.left, matrix.right);
  }
  average_right_.resize(right_.size());
  communicator.all_reduce(ConstBuffer(right_), Buffer(average_right_), ReduceOp::average, as_it_is);
  auto average_right = average_right_.begin();
  for (const Matrix& matrix : matrices_) {
    const GradientPart& part = *matrix.part;
    const std::span<float> factor(average_right, matrix.right.numbers.size());
    average_right += static_cast<std::ptrdiff_t>(factor.size());
    if (options_.warm_start)
      std::ranges::copy(factor, right_factors_.pending(part.name, factor.size()).begin());
    expand(matrix.left, {factor, matrix.right.length}, bucket.loss_scale,
           bucket.gradients.subspan(part.offset, part.count));
    // As in the paper, what this rank's own factors leave out. PyTorch subtracts the average, which comes to
    // the same sum over the ranks, unless a rank without data has a part in the average and keeps nothing.
    if (has_feedback) subtract_product(matrix.left, matrix.right, matrix.gradient);
  }
}

}  // namespace
}  // namespace train

std::shared_ptr<GradientHook> make_power_sgd_hook(const PowerSgdOptions& options) {
  return std::make_shared<train::PowerSgd>(options);
}

}  // namespace kolo
