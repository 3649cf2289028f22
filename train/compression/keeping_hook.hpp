// KeepingHook: a gradient hook that keeps values of parameters from step to step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/train/hooks.hpp"

namespace kolo::train {

/// Values per element of a parameter, such as what compression has left out of its gradients, in units of its
/// gradient with a loss scale of 1; zero at first. What a step makes of them is pending until it is known
/// whether the step counts. Belongs to parameters and not to buckets, which are filled anew after the first
/// backward.
///
/// F. Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed
/// Training of Speech DNNs", Interspeech 2014, section 3.2.
class Feedback {
 public:
  /// As the last step that counts left them.
  std::span<const float> kept(const std::string& parameter, std::size_t count);
  /// What this step leaves, to be filled by the caller.
  std::span<float> pending(const std::string& parameter, std::size_t count);
  /// Throws InvalidArgumentError where what is kept of one of them has another number of elements.
  void check(std::span<const GradientPart> parameters) const;

 private:
  friend class KeepingHook;
  struct Values {
    std::vector<float> kept;
    std::vector<float> pending;
    bool is_pending = false;
  };
  Values& find(const std::string& parameter, std::size_t count);

  std::map<std::string, Values> values_;
};

/// Its state are the values of each kind, under names that begin with the kind's prefix, and the number of
/// steps.
class KeepingHook : public GradientHook {
 public:
  void end_step(bool keep) override;
  HookState state() const final;
  void set_state(const HookState& state) final;

 protected:
  /// One prefix for each kind, of which none begins with another one. `counts_steps`: the number of steps is
  /// part of the state.
  using Prefixes = std::vector<std::string_view>;
  explicit KeepingHook(Prefixes prefixes, bool counts_steps = true)
      : kinds_(prefixes.size()), prefixes_(std::move(prefixes)), counts_steps_(counts_steps) {}

  std::vector<Feedback> kinds_;
  std::uint64_t steps_ = 0;  ///< that counted

 private:
  Prefixes prefixes_;
  bool counts_steps_;
};

}  // namespace kolo::train
