// Windows of a text, as a model reads them.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <string>

namespace language_model {

/// Bytes and, one further on, those to be predicted; int64 [n, context] both.
struct Windows {
  at::Tensor inputs, targets;
};

/// A text that windows are cut out of.
class Text {
 public:
  /// Throws std::invalid_argument for a text that is shorter than a window and the byte after it.
  Text(const std::string& text, std::int64_t context);

  /// Of the `batch` windows of a step, which depend on seed and step alone: those from `begin` to `end`. So
  /// one rank and four learn from the same bytes.
  Windows draw(std::uint64_t seed, std::int64_t step, std::int64_t batch, std::int64_t begin,
               std::int64_t end) const;

  /// Windows that begin at each half context; of all but the first, the second half is what counts.
  std::int64_t overlapping() const;
  /// Those with such numbers.
  Windows overlapping(const at::Tensor& numbers) const;

 private:
  Windows at_places(const at::Tensor& places) const;

  at::Tensor bytes_;  ///< uint8
  std::int64_t context_;
};

}  // namespace language_model
