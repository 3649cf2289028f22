// OuterOptimizer: SGD with momentum over averages of models.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <span>
#include <string>
#include <vector>

#include "kolo/train/local.hpp"
#include "local/plan.hpp"

namespace kolo::train {

class OuterOptimizer {
 public:
  /// Throws InvalidArgumentError for options out of their range.
  static void require_valid(const OuterOptimizerOptions& options);
  static std::string describe(const OuterOptimizerOptions& options);

  /// The first step begins from the parameters as they are now.
  OuterOptimizer(const OuterOptimizerOptions& options, std::span<const NamedTensor> parameters);

  /// The next step begins from `averages`.
  void begin_from(std::span<const FlatTensors> averages);
  /// Puts what the step makes of the averages in their place. Allocates no values.
  void step(std::span<const FlatTensors> averages);

  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  OuterOptimizerOptions options_;
  std::vector<FlatTensors> model_;     ///< after the last step
  std::vector<FlatTensors> momentum_;  ///< none where that is 0
};

}  // namespace kolo::train
