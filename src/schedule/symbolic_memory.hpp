// SymbolicMemory: the checker's model of a rank's memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "schedule/contributions.hpp"

namespace kolo::schedule {

/// `length` elements that come from elements `origin`, `origin` + 1, ... of the collective's whole data.
struct Piece {
  static constexpr std::uint32_t kNoStep = ~std::uint32_t{0};

  std::uint64_t length = 0;
  std::uint64_t origin = 0;
  Contributions::Set who = 0;
  std::uint32_t writer = kNoStep;  ///< the step of this rank that wrote it; kNoStep for the caller's data
};

/// A sequence of elements; each is unwritten or part of a piece.
class SymbolicMemory {
 public:
  void write(std::uint64_t offset, std::span<const Piece> pieces);
  /// Appends the pieces that fill [offset, offset + length), as few as possible. Returns false if an element
  /// is unwritten.
  bool read(std::uint64_t offset, std::uint64_t length, std::vector<Piece>& out) const;
  /// All written pieces, by offset.
  const std::map<std::uint64_t, Piece>& pieces() const { return pieces_; }

 private:
  void split(std::uint64_t at);

  std::map<std::uint64_t, Piece> pieces_;  // by offset; none is empty, none overlap
};

}  // namespace kolo::schedule
