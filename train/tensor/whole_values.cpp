#include "tensor/whole_values.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <sstream>
#include <string>

#include "kolo/error.hpp"
#include "libtorch/random_state.hpp"

namespace kolo::train {

at::Tensor uniform_values(at::IntArrayRef sizes, double bound, at::Generator generator) {
  return at::empty(sizes).uniform_(-bound, bound, generator_or_default(generator));
}

at::Tensor linear_values(at::IntArrayRef sizes, std::int64_t inputs, const at::Generator& generator) {
  return uniform_values(sizes, 1 / std::sqrt(static_cast<double>(inputs)), generator);
}

at::Tensor normal_values(at::IntArrayRef sizes, at::Generator generator) {
  return at::empty(sizes).normal_(0, 1, generator_or_default(generator));
}

at::Tensor own_part(const at::Tensor& whole, std::int64_t dimension, std::int64_t begin,
                    std::int64_t length) {
  return whole.narrow(dimension, begin, length).clone(at::MemoryFormat::Contiguous);
}

void require_positive(std::int64_t value, const char* what) {
  if (value < 1) throw InvalidArgumentError(std::to_string(value) + ' ' + what + ": it is 1 or more", {});
}

void require_enough(std::int64_t value, const char* what, int ranks) {
  require_positive(value, what);
  if (value >= ranks) return;
  throw InvalidArgumentError(
      std::to_string(value) + ' ' + what + " cannot be divided among " + std::to_string(ranks) + " ranks",
      {});
}

void require_divides(std::int64_t whole, const char* what, std::int64_t part, const char* by) {
  if (part > 0 && whole % part == 0) return;
  throw InvalidArgumentError(
      std::to_string(whole) + ' ' + what + " cannot be divided by " + std::to_string(part) + ' ' + by, {});
}

void require_probability(double value, const char* what) {
  if (value >= 0 && value < 1) return;
  std::ostringstream text;
  text << what << " of " << value << " is not from 0 to below 1";
  throw InvalidArgumentError(text.str(), {});
}

void require_features(const at::Tensor& x, std::int64_t features, const char* who) {
  if (x.dim() > 0 && x.size(-1) == features) return;
  throw InvalidArgumentError(std::string(who) + " takes [..., " + std::to_string(features) +
                                 "], not a tensor of " + c10::str(x.sizes()),
                             {});
}

void require_in_vocabulary(const at::Tensor& indices, std::int64_t vocabulary) {
  if (indices.scalar_type() != at::kLong) {
    throw InvalidArgumentError(std::string("indices are int64, not ") + c10::toString(indices.scalar_type()),
                               {});
  }
  if (indices.numel() == 0) return;
  const auto [least, most] = at::aminmax(indices);
  for (const auto index : {least.item<std::int64_t>(), most.item<std::int64_t>()}) {
    if (index >= 0 && index < vocabulary) continue;
    throw InvalidArgumentError(
        "index " + std::to_string(index) + " is not in a vocabulary of " + std::to_string(vocabulary), {});
  }
}

}  // namespace kolo::train
