// Placement: what a wrapper gives as placed(); what PlacedModel is made of, and checkpoints; sums for norms.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/parallel_model.hpp"

namespace kolo::train {

/// In float64. On the CPU in an order that depends on the number of elements alone: libtorch's sums depend on
/// vector units and threads. Of tensors on a device libtorch's sum, for which this waits once. Throws
/// InvalidArgumentError for complex numbers.
double sum_of_squares(std::span<const at::Tensor> tensors);

/// The region without a cut or range that is all there is; but one whose elements lie in an order of their
/// own keeps its range.
Region shortest_region(const PlacedParameter& placed);
/// What the other ranks need to know of this one's tensors. Throws InvalidArgumentError for a region that is
/// not within its tensor, or of another size.
std::string describe(const std::vector<PlacedParameter>& parameters);
/// The inverse. The tensors have no elements, and the types of those that were described.
std::vector<PlacedParameter> described(const std::string& text);
/// What all ranks have described, together. Throws, as PlacedModel's constructor does, errors of `who`.
std::vector<PlacedModel::Whole> place(const std::vector<std::string>& texts, const char* who);
/// A region of a whole value: [n] for a range, else with the sizes of the cut.
at::Tensor region_in(const at::Tensor& whole, const PlacedParameter& placed);

class Placement {
 public:
  /// Collective over `holders`, of which it takes a communicator of its own, or, where they are not valid,
  /// over `own`. A model of which `own` has parts alone is no error until get().
  Placement(std::vector<PlacedParameter> parameters, const Communicator& holders, const Communicator& own) {
    if (holders.valid()) {
      model_.emplace(std::move(parameters), Communicator(holders).split(0));
      return;
    }
    try {
      model_.emplace(std::move(parameters), own);
    } catch (const InvalidArgumentError& error) {
      reason_ = std::string("set the option `holders` to the ranks that have all parts: ") + error.what();
    }
  }

  /// Throws InvalidArgumentError, on all ranks alike, where there are other parts than those of `own`.
  const PlacedModel& get() const {
    if (!model_) throw InvalidArgumentError(reason_, {});
    return *model_;
  }

 private:
  std::optional<PlacedModel> model_;
  std::string reason_;
};

}  // namespace kolo::train
