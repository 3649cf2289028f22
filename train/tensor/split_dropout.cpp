#include "kolo/train/parallel_layers.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>

#include <string>

#include "kolo/error.hpp"
#include "libtorch/thread_state.hpp"
#include "tensor/construction.hpp"
#include "tensor/group_collectives.hpp"

namespace kolo {
namespace {

/// S. Vigna's splitmix64: the number after `x` in a sequence of well-mixed ones.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

struct Layout {
  std::int64_t outer, length, inner;  ///< of the tensor: before, along and behind the dimension
  std::int64_t begin, whole;
};

template <typename T>
void fill_factors(T* factors, const Layout& layout, std::uint64_t seed, double probability) {
  // Numbers of 53 bits, as many as a double holds.
  const auto least = static_cast<std::uint64_t>(probability * static_cast<double>(std::uint64_t{1} << 53));
  const T kept = static_cast<T>(1 / (1 - probability)), dropped = static_cast<T>(0);
  for (std::int64_t outer = 0; outer < layout.outer; ++outer) {
    auto place = static_cast<std::uint64_t>((outer * layout.whole + layout.begin) * layout.inner);
    for (std::int64_t i = 0; i < layout.length * layout.inner; ++i)
      *factors++ = (mixed(seed + mixed(place++)) >> 11) < least ? dropped : kept;
  }
}

Layout layout_of(const at::Tensor& x, const std::optional<Split>& split) {
  if (!split) return {1, 1, x.numel(), 0, 1};
  const std::int64_t dimension = at::maybe_wrap_dim(split->dimension, x.dim());
  if (x.size(dimension) != split->slice.length || split->slice.begin < 0 ||
      split->slice.end() > split->whole) {
    throw InvalidArgumentError("a slice of " + std::to_string(split->slice.length) + " elements from " +
                                   std::to_string(split->slice.begin) + " on, of " +
                                   std::to_string(split->whole) + ", is not dimension " +
                                   std::to_string(dimension) + " of a tensor of " + c10::str(x.sizes()),
                               {});
  }
  std::int64_t outer = 1, inner = 1;
  for (std::int64_t d = 0; d < dimension; ++d) outer *= x.size(d);
  for (std::int64_t d = dimension + 1; d < x.dim(); ++d) inner *= x.size(d);
  return {outer, split->slice.length, inner, split->slice.begin, split->whole};
}

}  // namespace

at::Tensor split_dropout(const at::Tensor& x, double probability, const std::optional<Split>& split,
                         at::Generator generator, Communicator group) {
  train::require_probability(probability, "a probability of dropout");
  if (probability == 0) return x;
  const Layout layout = layout_of(x, split);
  const std::uint64_t seed =
      group.valid() ? train::number_of_group(generator, group) : train::draw(generator);
  const at::Tensor factors = at::empty(x.sizes(), x.scalar_type());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "split_dropout", [&] {
    fill_factors(factors.data_ptr<scalar_t>(), layout, seed, probability);
  });
  return x * factors.to(x.device());
}

}  // namespace kolo
