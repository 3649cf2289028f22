#include "kolo/train/tower_conv2d.hpp"

#include <ATen/Functions.h>

#include <ostream>
#include <sstream>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "tensor/whole_values.hpp"

namespace kolo {
namespace {

const char* name_of_input(TowerInput input) {
  switch (input) {
    case TowerInput::own_tower:
      return "its own tower";
    case TowerInput::all_towers:
      return "all towers";
    case TowerInput::replicated:
      return "a replicated input";
  }
  return "";
}

std::string text_of_tower(const TowerConv2dOptions& options) {
  std::ostringstream text;
  text << std::boolalpha << "in_channels " << options.in_channels << ", out_channels " << options.out_channels
       << ", kernel_size " << options.kernel_size << ", stride " << options.stride << ", padding "
       << options.padding << ", bias " << options.bias << ", sees " << name_of_input(options.input);
  return text.str();
}

void require_sizes(const torch::ExpandingArray<2>& sizes, std::int64_t least, const char* what) {
  for (const std::int64_t size : *sizes) {
    if (size < least)
      throw InvalidArgumentError(std::string("a ") + what + " of " + std::to_string(size), {});
  }
}

}  // namespace

TowerConv2dImpl::TowerConv2dImpl(const TowerConv2dOptions& options_, Communicator group)
    : options(options_), group_(std::move(group)) {
  train::agree_on_module("TowerConv2d", group_, text_of_tower(options), &options.generator, [&] {
    train::require_positive(options.in_channels, "in_channels");
    train::require_positive(options.out_channels, "out_channels");
    train::require_divides(options.out_channels, "out_channels", group_.size(), "towers");
    if (options.input != TowerInput::replicated)
      train::require_divides(options.in_channels, "in_channels", group_.size(), "towers");
    require_sizes(options.kernel_size, 1, "kernel_size");
    require_sizes(options.stride, 1, "stride");
    require_sizes(options.padding, 0, "padding");
  });
  maps = slice_of(options.out_channels, group_.rank(), group_.size());
  const std::int64_t seen =
      options.input == TowerInput::own_tower ? options.in_channels / group_.size() : options.in_channels;
  const std::int64_t height = options.kernel_size->at(0), width = options.kernel_size->at(1);
  const auto part = [&](at::IntArrayRef sizes) {
    return train::own_part(train::linear_values(sizes, seen * height * width, options.generator), 0,
                           maps.begin, maps.length);
  };
  weight = register_parameter("weight", part({options.out_channels, seen, height, width}));
  bias = options.bias ? register_parameter("bias", part({options.out_channels}))
                      : register_parameter("bias", {}, false);
  train::mark_slices(*this, group_);
}

at::Tensor TowerConv2dImpl::forward(const at::Tensor& x) {
  const bool is_whole = options.input == TowerInput::replicated;
  const std::int64_t channels = is_whole ? options.in_channels : options.in_channels / group_.size();
  if (x.dim() != 4 || x.size(1) != channels) {
    throw InvalidArgumentError("TowerConv2d takes [samples, " + std::to_string(channels) +
                                   ", height, width], not a tensor of " + c10::str(x.sizes()),
                               {});
  }
  const at::Tensor seen = is_whole                                  ? copy_to_group(x, group_)
                          : options.input == TowerInput::all_towers ? gather_sequence(x, 1, group_)
                                                                    : x;
  return at::conv2d(seen, weight, bias, *options.stride, *options.padding);
}

std::vector<TensorParallelModule::SlicedParameter> TowerConv2dImpl::sliced_parameters() const {
  return {{"weight", 0, maps, options.out_channels}, {"bias", 0, maps, options.out_channels}};
}

void TowerConv2dImpl::pretty_print(std::ostream& stream) const {
  stream << "kolo::TowerConv2d(" << text_of_tower(options) << ", maps from " << maps.begin << " to "
         << maps.end() << ')';
}

}  // namespace kolo
