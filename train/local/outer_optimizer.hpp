// OuterOptimizer: SGD with momentum over averages of models.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <optional>
#include <span>
#include <string>

#include "kolo/train/local.hpp"
#include "local/flat_tensors.hpp"

namespace kolo::train {

class OuterOptimizer {
 public:
  /// Throws InvalidArgumentError for options out of their range.
  static void require_valid(const OuterOptimizerOptions& options);
  static std::string describe(const OuterOptimizerOptions& options);

  /// The first step begins from the parameters as they are now.
  OuterOptimizer(const OuterOptimizerOptions& options, std::span<const NamedTensor> parameters,
                 Communicator& communicator);

  /// The next step begins from `averages`.
  void begin_from(const FlatTensors& averages);
  /// Puts what the step makes of the averages in their place. Allocates nothing.
  void step(const FlatTensors& averages);

  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  OuterOptimizerOptions options_;
  FlatTensors model_;                    ///< after the last step
  std::optional<FlatTensors> momentum_;  ///< none where that is 0
};

}  // namespace kolo::train
