// StaticGraph: how often each backward accumulates each gradient, where all backward passes are alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ranks/model.hpp"

namespace kolo::train {

/// Learns from this rank's first backward that averages, and holds later ones to it. Ranks may use different
/// parameters; together they learn which ones no rank uses. Not thread-safe.
class StaticGraph {
 public:
  using Flags = std::vector<std::uint8_t>;  ///< by parameter; 0: not used

  /// `parameters` outlive it.
  StaticGraph(const std::vector<NamedTensor>& parameters, int rank);

  /// A backward of this rank begins.
  void begin();
  /// A gradient was accumulated. Returns whether that completes it, which is not known while learning. Throws
  /// InvalidArgumentError, with names of rank and parameter, for more times than learned.
  bool accumulated(std::size_t parameter);
  /// Whether a backward accumulates a gradient of this parameter; all do while learning.
  bool is_reached(std::size_t parameter) const { return !is_learned_ || learned_[parameter] > 0; }

  /// The end of a backward of this rank; `used`: which parameters got a gradient since the averaging before,
  /// perhaps under no_sync(). Throws InvalidArgumentError, with names of rank and parameter, for one that
  /// differs from what was learned. Returns the parameters that are complete only now, in the order of their
  /// last accumulation.
  std::vector<std::size_t> end(const Flags& used);

  /// Which parameters some rank uses; null until agree().
  const Flags* used_anywhere() const noexcept { return used_anywhere_.empty() ? nullptr : &used_anywhere_; }
  void agree(const Flags& used_anywhere) { used_anywhere_ = used_anywhere; }

 private:
  [[noreturn]] void refuse(std::size_t parameter, const std::string& now, const std::string& before) const;

  const std::vector<NamedTensor>& parameters_;
  int rank_;
  bool is_learned_ = false;
  std::vector<std::size_t> counts_;   ///< of accumulations in this backward
  std::vector<std::size_t> learned_;  ///< the same of the first one
  std::vector<std::size_t> last_;     ///< of this backward: its accumulations, in their order
  Flags used_;                        ///< as learned
  Flags used_anywhere_;
};

}  // namespace kolo::train
