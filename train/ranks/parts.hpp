// Which tensors are this rank's part of a model, so that other ranks have other parts.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <string>

#include "kolo/communicator.hpp"

namespace kolo::train {

struct ModelPart {
  std::string of;           ///< the object that divides the model
  std::string for_norms;    ///< what gives norms over all parts
  bool is_divided = false;  ///< parameters are cut; otherwise each is whole, and on one rank
  int index = 0;
  int count = 1;

  /// "part 1 of 4 of a PipelineParallel"
  std::string text() const;
};

/// Enters tensors into a table of the process, for as long as they are there or until they are whole again. A
/// group of one rank has no parts. Thread-safe, as all functions here are.
void mark_parts(std::span<const at::Tensor> tensors, const Communicator& group, ModelPart part);
void unmark_parts(std::span<const at::Tensor> tensors);
std::optional<ModelPart> part_of(const at::Tensor& tensor);

/// Throws InvalidArgumentError where a norm of the tensor, or with others of its rank, would be that of a
/// part: says so for `who`, and what to do instead.
void require_no_part(const at::Tensor& tensor, const std::string& who);
/// The same where parameters must be whole, and need not be all of the model.
void require_undivided(const at::Tensor& tensor, const std::string& who);

}  // namespace kolo::train
