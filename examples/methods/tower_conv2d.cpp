#include "methods/tower_conv2d.hpp"

#include <ATen/Functions.h>

#include <array>
#include <cmath>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"

namespace kolo::methods {
namespace {

std::string text_of(const TowerConv2dOptions& options) {
  constexpr std::array kSeen = {"its own tower", "all towers", "a replicated input"};
  std::ostringstream text;
  text << std::boolalpha << "in_channels " << options.in_channels << ", out_channels " << options.out_channels
       << ", kernel_size " << options.kernel_size << ", stride " << options.stride << ", padding "
       << options.padding << ", bias " << options.bias << ", sees "
       << kSeen.at(static_cast<std::size_t>(options.input));
  return text.str();
}

void require_least(std::int64_t value, std::int64_t least, const char* what) {
  if (value < least) throw InvalidArgumentError(std::to_string(value) + " as the " + what, {});
}

void require_towers(std::int64_t channels, const char* what, int towers) {
  require_least(channels, 1, what);
  if (channels % towers == 0) return;
  throw InvalidArgumentError(
      std::to_string(channels) + ' ' + what + " cannot be divided by " + std::to_string(towers) + " towers",
      {});
}

}  // namespace

TowerConv2dImpl::TowerConv2dImpl(const TowerConv2dOptions& options_, Communicator group)
    : options(options_), group_(std::move(group)) {
  agree_on_module("TowerConv2d", group_, text_of(options), &options.generator, [&] {
    require_towers(options.in_channels, "in_channels",
                   options.input == TowerInput::replicated ? 1 : group_.size());
    require_towers(options.out_channels, "out_channels", group_.size());
    for (const std::size_t i : {0, 1}) {
      require_least(options.kernel_size->at(i), 1, "kernel_size");
      require_least(options.stride->at(i), 1, "stride");
      require_least(options.padding->at(i), 0, "padding");
    }
  });
  maps = slice_of(options.out_channels, group_.rank(), group_.size());
  const std::int64_t seen =
      options.input == TowerInput::own_tower ? options.in_channels / group_.size() : options.in_channels;
  const std::int64_t height = options.kernel_size->at(0), width = options.kernel_size->at(1);
  // The whole is drawn on every rank, so that the towers together hold what one process draws.
  const auto part = [&](at::IntArrayRef sizes) {
    const double bound = 1 / std::sqrt(static_cast<double>(seen * height * width));
    const at::Tensor whole = at::empty(sizes);
    options.generator.defined() ? whole.uniform_(-bound, bound, options.generator)
                                : whole.uniform_(-bound, bound);
    return whole.narrow(0, maps.begin, maps.length).clone();
  };
  weight = register_parameter("weight", part({options.out_channels, seen, height, width}));
  bias = options.bias ? register_parameter("bias", part({options.out_channels}))
                      : register_parameter("bias", {}, false);
  slices_ = {{"weight", 0, maps, options.out_channels}, {"bias", 0, maps, options.out_channels}};
  mark_slices(*this, group_);
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

void TowerConv2dImpl::pretty_print(std::ostream& stream) const {
  stream << "TowerConv2d(" << text_of(options) << ", maps from " << maps.begin << " to " << maps.end() << ')';
}

}  // namespace kolo::methods
