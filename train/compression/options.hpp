// Options of hooks as text: what make_gradient_hook() reads and describe() writes.
#pragma once

#include <charconv>
#include <iterator>
#include <string>

#include "kolo/train/hooks.hpp"

namespace kolo::train {

// Each calls `visit(name, option)` for the options of a hook, in the order of describe().

void visit_options(CompressedOptions& options, const auto& visit) {
  visit("feedback", options.feedback);
  visit("start_after_steps", options.start_after_steps);
}
void visit_options(TopKOptions& options, const auto& visit) {
  visit("ratio", options.ratio);
  visit("momentum", options.momentum);
  visit("warm_up_steps", options.warm_up_steps);
}
void visit_options(PowerSgdOptions& options, const auto& visit) {
  visit("rank", options.rank);
  visit("start_after_steps", options.start_after_steps);
  visit("seed", options.seed);
  visit("feedback", options.feedback);
  visit("warm_start", options.warm_start);
}
void visit_options(PostLocalSgdOptions& options, const auto& visit) {
  visit("start_after_steps", options.start_after_steps);
  visit("ranks_per_group", options.ranks_per_group);
}

/// The shortest text that reads as the same number; a bool is 0 or 1.
std::string text_of(auto number) {
  char text[32];
  return {text, std::to_chars(std::begin(text), std::end(text), +number).ptr};
}

/// "top_k:ratio=0.01:momentum=0.9:warm_up_steps=0"
template <typename Options>
std::string specification_of(std::string name, Options options) {
  visit_options(options, [&](const char* option, const auto& value) {
    name += ':' + std::string(option) + '=' + text_of(value);
  });
  return name;
}

}  // namespace kolo::train
