// What a thread computes with beside its tensors: autocast, and the states of generators of random
// numbers, libtorch's default one and those that modules are given.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kolo::train {

/// What libtorch keeps of autocast for each thread.
struct AutocastState {
  bool is_enabled = false, is_enabled_on_gpus = false;
  at::ScalarType dtype = at::kBFloat16, dtype_on_gpus = at::kBFloat16;
  bool has_cache = true;  ///< of weights that were cast

  /// This thread's.
  static AutocastState current();
  /// Makes it this thread's.
  void apply() const;
};

/// While it lives, this thread's autocast is another one.
class AutocastScope {
 public:
  explicit AutocastScope(const AutocastState& state) { state.apply(); }
  ~AutocastScope() { before_.apply(); }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const AutocastState before_ = AutocastState::current();
};

struct RandomState {
  at::Generator generator;
  at::Tensor state;

  /// Without a generator: of libtorch's default one.
  static RandomState of(at::Generator generator);
  /// Of libtorch's default generator, right after it was seeded.
  static RandomState seeded(std::uint64_t seed);
  /// Throws c10::Error where `state` is none.
  void apply() const;
};
using RandomStates = std::vector<RandomState>;

/// Gives generators these states while it lives.
class RandomScope {
 public:
  explicit RandomScope(const RandomStates& states);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomStates before_;
};

/// While it lives, `states` gets the state that each generator had before its first draw: the default
/// generators' of the CPU and of the inputs' devices at once, and those of other generators when draw() takes
/// a number of them in this thread.
class RandomRecord {
 public:
  RandomRecord(RandomStates& states, at::TensorList inputs);
  ~RandomRecord();
  RandomRecord(const RandomRecord&) = delete;
  RandomRecord& operator=(const RandomRecord&) = delete;

 private:
  friend std::uint64_t draw(const at::Generator& generator);
  void note(const at::Generator& generator);

  RandomStates& states_;
  RandomRecord* const outer_;
};

/// libtorch's default one in place of none.
at::Generator generator_or_default(const at::Generator& generator);

/// A random number of 64 bits.
std::uint64_t draw(const at::Generator& generator);

}  // namespace kolo::train
