#include "kolo/train/parallel_layers.hpp"

#include <sstream>

#include "tensor/activation.hpp"
#include "tensor/whole_values.hpp"

namespace kolo {

ParallelMLPImpl::ParallelMLPImpl(const ParallelMLPOptions& options_, const Communicator& group)
    : options(options_), up(nullptr), down(nullptr) {
  std::ostringstream text;
  text << std::boolalpha << "width " << options.width << ", hidden " << options.hidden << ", "
       << train::name_of_activation(options.activation) << ", bias " << options.bias << ", sequence "
       << options.sequence;
  agree_on_module("ParallelMLP", group, text.str(), &options.generator, [&] {
    train::require_positive(options.width, "features (width)");
    train::require_enough(options.hidden, "hidden features", group.size());
  });
  up = register_module("up", ColumnParallelLinear(ColumnParallelLinearOptions{.in_features = options.width,
                                                                              .out_features = options.hidden,
                                                                              .bias = options.bias,
                                                                              .sequence = options.sequence,
                                                                              .generator = options.generator},
                                                  group));
  down = register_module("down", RowParallelLinear(RowParallelLinearOptions{.in_features = options.hidden,
                                                                            .out_features = options.width,
                                                                            .bias = options.bias,
                                                                            .sequence = options.sequence,
                                                                            .generator = options.generator},
                                                   group));
}

at::Tensor ParallelMLPImpl::forward(const at::Tensor& x, std::int64_t whole_sequence) {
  return down(train::activate(up(x, whole_sequence), options.activation));
}

}  // namespace kolo
