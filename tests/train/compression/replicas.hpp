// Ranks that average made-up gradients by a hook, step by step.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/train/hooks.hpp"
#include "support/cluster.hpp"

namespace kolo::test {

/// The hooks that the suite is run with.
std::vector<std::string> tested_hooks();

/// Parameters of many shapes.
std::vector<GradientPart> parameters();
/// Some number for an element of a parameter's gradient, between -1 and 1.
float gradient(int rank, int step, std::size_t parameter, std::size_t element);

/// What one rank does in a run.
struct Script {
  std::string hook;
  std::string transport = "inproc";
  int ranks = 3;
  int steps = 4;
  /// The parameters of each bucket in a step, by their index; empty: three buckets.
  std::function<std::vector<std::vector<std::size_t>>(int step)> buckets = {};
  /// Changes the bucket (and the gradients in it) before it is averaged.
  std::function<void(int rank, int step, GradientBucket& bucket)> adjust = {};
  /// Whether the step is forgotten.
  std::function<bool(int step)> drops = {};
  /// The hook of a step, where it is not the one of the step before: a run that was saved, say.
  std::function<std::shared_ptr<GradientHook>(int step, std::shared_ptr<GradientHook> before)> replace = {};
};

/// One rank's averages of each step, by parameter, and its hook's state at the end.
struct Outputs {
  std::vector<std::vector<std::vector<float>>> averages;
  HookState state;
};
std::vector<Outputs> run(const Script& what);

/// Of a parameter: what a hook holds back, in units of gradients; empty where it holds nothing.
std::vector<float> held_back(const HookState& state, const std::string& parameter);

bool same_bits(std::span<const float> one, std::span<const float> other);

}  // namespace kolo::test
