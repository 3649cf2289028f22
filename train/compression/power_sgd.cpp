#include "compression/power_sgd.hpp"

#include <algorithm>
#include <utility>

#include "compression/low_rank.hpp"
#include "compression/numbers.hpp"
#include "kolo/error.hpp"

namespace kolo::train {
namespace {

constexpr std::string_view kLeftOut = "left out of ", kRightFactors = "right factor of ", kSteps = "steps";

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

}  // namespace

PowerSgd::PowerSgd(const PowerSgdOptions& options) : options_(options) {
  if (options.rank < 1)
    throw InvalidArgument("power_sgd: a rank of " + std::to_string(options.rank) + " is below 1", {});
}

std::string PowerSgd::describe() const {
  return "power_sgd:rank=" + std::to_string(options_.rank) +
         ":start_after_steps=" + std::to_string(options_.start_after_steps) +
         ":seed=" + std::to_string(options_.seed);
}

void PowerSgd::check(std::span<const GradientPart> parameters) const {
  std::uint64_t largest = 0;
  for (const GradientPart& part : parameters) largest = std::max(largest, largest_rank(size_of_matrix(part)));
  if (static_cast<std::uint64_t>(options_.rank) <= largest) return;
  throw InvalidArgument("power_sgd: with a rank of " + std::to_string(options_.rank) +
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
  std::size_t gradients = 0, left = 0, right = 0, whole = 0;
  for (const GradientPart& part : bucket.parts) {
    const Size size = size_of_matrix(part);
    if (steps_ < options_.start_after_steps || !saves_bytes(size, rank)) {
      whole_.push_back({&part, whole});
      whole += part.count;
      continue;
    }
    matrices_.push_back({&part, {}, {{}, size.rows}, {{}, size.columns}});
    gradients += part.count;
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
    matrix.gradient = next(gradients_, gradients, matrix.part->count);
    matrix.left.numbers = next(left_, left, matrix.left.length * rank);
    matrix.right.numbers = next(right_, right, matrix.right.length * rank);
  }
}

/// Where the last step ended; a random one where it ended at zero, as before the first.
void PowerSgd::start_right_factor(const std::string& parameter, std::span<float> factor) {
  const auto before = right_factors_.kept(parameter, factor.size());
  if (std::ranges::any_of(before, [](float number) { return number != 0; })) {
    std::ranges::copy(before, factor.begin());
    return;
  }
  std::uint64_t seed = options_.seed;
  for (const char c : parameter) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  for (std::size_t i = 0; i < factor.size(); ++i) factor[i] = random_number(seed, i);
}

void PowerSgd::average(const GradientBucket& bucket, Communicator& communicator) {
  if (communicator.size() == 1) return;
  lay_out(bucket);
  const float unscale = 1 / bucket.loss_scale;
  for (const Matrix& matrix : matrices_) {
    const GradientPart& part = *matrix.part;
    const auto left_out = left_out_.kept(part.name, part.count);
    const auto gradient = bucket.gradients.subspan(part.offset, part.count);
    const float feedback = bucket.contributes ? 1.0f : 0.0f;
    for (std::size_t i = 0; i < part.count; ++i)
      matrix.gradient[i] = unscale * gradient[i] + feedback * left_out[i];
    start_right_factor(part.name, matrix.right.numbers);
    multiply(matrix.gradient, matrix.right, matrix.left);
  }
  for (const Whole& whole : whole_) {
    std::ranges::copy(bucket.gradients.subspan(whole.part->offset, whole.part->count),
                      left_.begin() + static_cast<std::ptrdiff_t>(whole.offset));
  }
  communicator.all_reduce(Buffer(left_), ReduceOp::average);
  for (const Whole& whole : whole_) {
    std::ranges::copy(std::span(left_).subspan(whole.offset, whole.part->count),
                      bucket.gradients.begin() + static_cast<std::ptrdiff_t>(whole.part->offset));
  }
  if (matrices_.empty()) return;

  for (const Matrix& matrix : matrices_) {
    orthonormalize(matrix.left);
    multiply_transposed(matrix.gradient, matrix.left, matrix.right);
  }
  communicator.all_reduce(Buffer(right_), ReduceOp::average);
  for (const Matrix& matrix : matrices_) {
    const GradientPart& part = *matrix.part;
    std::ranges::copy(matrix.right.numbers,
                      right_factors_.pending(part.name, matrix.right.numbers.size()).begin());
    const auto average = bucket.gradients.subspan(part.offset, part.count);
    expand(matrix.left, matrix.right, average);
    if (bucket.contributes) {
      const auto left_out = left_out_.pending(part.name, part.count);
      for (std::size_t i = 0; i < part.count; ++i) left_out[i] = matrix.gradient[i] - average[i];
    }
    for (float& number : average) number *= bucket.loss_scale;
  }
}

void PowerSgd::end_step(bool keep) {
  left_out_.end_step(keep);
  right_factors_.end_step(keep);
  if (keep) ++steps_;
}

HookState PowerSgd::state() const {
  HookState state;
  left_out_.save(state, kLeftOut);
  right_factors_.save(state, kRightFactors);
  save_count(state, kSteps, steps_);
  return state;
}

void PowerSgd::set_state(const HookState& state) {
  HookState rest = state;
  const std::uint64_t steps = take_count(rest, kSteps);
  const HookState right_factors = take_prefixed(rest, kRightFactors);
  left_out_.load(rest, kLeftOut);
  right_factors_.load(right_factors, kRightFactors);
  steps_ = steps;
}

}  // namespace kolo::train
