#include "kolo/train/parallel_layers.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <ostream>
#include <sstream>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "tensor/whole_values.hpp"

namespace kolo {

ParallelLayerNormImpl::ParallelLayerNormImpl(const ParallelLayerNormOptions& options_, Communicator group)
    : options(options_), group_(std::move(group)) {
  std::ostringstream text;
  text << std::boolalpha << "features " << options.features << ", eps " << options.eps << ", sequence "
       << options.sequence;
  agree_on_module("ParallelLayerNorm", group_, text.str(), nullptr, [&] {
    train::require_positive(options.features, "features");
    if (!(options.eps >= 0) || !std::isfinite(options.eps)) throw InvalidArgumentError("eps is negative", {});
  });
  weight = register_parameter("weight", at::ones({options.features}));
  bias = register_parameter("bias", at::zeros({options.features}));
}

at::Tensor ParallelLayerNormImpl::forward(const at::Tensor& x) {
  train::require_features(x, options.features, "ParallelLayerNorm");
  if (!options.sequence) return at::layer_norm(x, {options.features}, weight, bias, options.eps);
  const at::Tensor both = copy_to_group(at::stack({weight, bias}), group_);
  return at::layer_norm(x, {options.features}, both[0], both[1], options.eps);
}

void ParallelLayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << "kolo::ParallelLayerNorm(" << options.features << ", eps=" << options.eps << ')';
}

}  // namespace kolo
