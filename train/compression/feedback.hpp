// Feedback: what compression has left out of a parameter's gradients, to be added to the next ones.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/train/hooks.hpp"

namespace kolo::train {

/// Values per element of a parameter, in units of its gradient with a loss scale of 1; zero at first. What a
/// step makes of them is pending until it is known whether the step counts. Belongs to parameters and not to
/// buckets, which are filled anew after the first backward.
///
/// F. Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed
/// Training of Speech DNNs", Interspeech 2014, section 3.2.
class Feedback {
 public:
  /// As the last step that counts left them.
  std::span<const float> kept(const std::string& parameter, std::size_t count);
  /// What this step leaves, to be filled by the caller.
  std::span<float> pending(const std::string& parameter, std::size_t count);
  void end_step(bool keep);
  /// Throws InvalidArgumentError where what is kept of one of them has another number of elements.
  void check(std::span<const GradientPart> parameters) const;

  /// Under names that begin with `prefix`, which no other part of the state has.
  void save(HookState& state, std::string_view prefix) const;
  /// The inverse. Throws InvalidArgumentError where it holds other names than `prefix`'s.
  void load(const HookState& state, std::string_view prefix);

 private:
  struct Values {
    std::vector<float> kept;
    std::vector<float> pending;
    bool is_pending = false;
  };
  Values& find(const std::string& parameter, std::size_t count);

  std::map<std::string, Values> values_;
};

}  // namespace kolo::train
