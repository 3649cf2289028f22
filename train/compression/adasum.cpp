// Adasum: the gradient hook that adds what gradients have apart and averages what they have in common.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/train/hooks.hpp"

namespace kolo {
namespace train {
namespace {

/// S. Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021, section 3: of two
/// gradients a and b of a parameter
///
///     (1 - a.b / 2 |a|^2) a + (1 - a.b / 2 |b|^2) b,
///
/// of more those of pairs of neighbouring ranks, then of pairs of pairs. The paper halves vectors from pair
/// to pair, for powers of two; here each rank holds one part of all ranks' vectors (all_to_all), ranks add up
/// the products of their parts (a few numbers a parameter and level), and the result is gathered: the bytes
/// of a ring, for any number of ranks.
class Adasum final : public GradientHook {
 public:
  std::string describe() const override { return "adasum"; }
  bool is_mean() const override { return false; }
  void average(const GradientBucket& bucket, Communicator& communicator) override;
  void end_step(bool) override {}

 private:
  /// Combines neighbours among `vectors`, this rank's parts from `begin` on, until one is left.
  void combine(std::vector<std::span<float>> vectors, std::size_t begin, std::span<const GradientPart> parts,
               Communicator& communicator);

  std::vector<float> received_;   ///< this rank's part of every rank's bucket
  std::vector<double> products_;  ///< a.a, a.b and b.b of each pair and parameter
};

/// Where a parameter lies in a part of the bucket that begins at `begin`.
struct Range {
  std::size_t begin, end;
};
Range range_in(const GradientPart& part, std::size_t begin, std::size_t size) {
  const auto within = [&](std::size_t at) { return std::clamp(at, begin, begin + size) - begin; };
  return {within(part.offset), within(part.offset + part.count)};
}

double dot(std::span<const float> a, std::span<const float> b, Range range) {
  double sum = 0;
  for (std::size_t i = range.begin; i < range.end; ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// How much of a vector counts beside another one. One that is zero adds nothing, whatever its factor.
float factor(double product, double square) {
  return square == 0 ? 1.0f : static_cast<float>(1 - product / (2 * square));
}

void Adasum::average(const GradientBucket& bucket, Communicator& communicator) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  if (ranks == 1) return;
  const std::span<float> all = bucket.gradients;
  const auto begin_of = [&](std::size_t rank) { return all.size() * rank / ranks; };
  const auto me = static_cast<std::size_t>(communicator.rank());
  const std::size_t begin = begin_of(me), mine = begin_of(me + 1) - begin;
  std::vector<std::uint64_t> counts;
  for (std::size_t rank = 0; rank < ranks; ++rank) counts.push_back(begin_of(rank + 1) - begin_of(rank));
  const std::vector<std::uint64_t> my_counts(ranks, mine);
  received_.resize(ranks * mine);
  communicator.all_to_all(ConstBuffer(all), Buffer(received_), counts, my_counts);

  std::vector<std::span<float>> vectors;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    vectors.push_back(std::span(received_).subspan(rank * mine, mine));
  combine(vectors, begin, bucket.parts, communicator);
  communicator.all_gather(ConstBuffer(vectors[0]), Buffer(all), counts);
}

void Adasum::combine(std::vector<std::span<float>> vectors, std::size_t begin,
                     std::span<const GradientPart> parts, Communicator& communicator) {
  while (vectors.size() > 1) {
    products_.clear();
    for (std::size_t i = 0; i + 1 < vectors.size(); i += 2) {
      const auto a = vectors[i], b = vectors[i + 1];
      for (const GradientPart& part : parts) {
        const Range range = range_in(part, begin, a.size());
        products_.insert(products_.end(), {dot(a, a, range), dot(a, b, range), dot(b, b, range)});
      }
    }
    communicator.all_reduce(Buffer(products_), ReduceOp::sum);
    std::vector<std::span<float>> sums;
    const double* product = products_.data();
    for (std::size_t i = 0; i + 1 < vectors.size(); i += 2) {
      const auto a = vectors[i], b = vectors[i + 1];
      for (const GradientPart& part : parts) {
        const Range range = range_in(part, begin, a.size());
        const float of_a = factor(product[1], product[0]), of_b = factor(product[1], product[2]);
        for (std::size_t k = range.begin; k < range.end; ++k) a[k] = of_a * a[k] + of_b * b[k];
        product += 3;
      }
      sums.push_back(a);
    }
    if (vectors.size() % 2 == 1) sums.push_back(vectors.back());
    vectors = std::move(sums);
  }
}

}  // namespace
}  // namespace train

std::shared_ptr<GradientHook> make_adasum_hook() {
  return std::make_shared<train::Adasum>();
}

}  // namespace kolo
