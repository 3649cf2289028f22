// SparseBlock: a share of a sparse vector, how it is divided, summed, and written for the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"

namespace kolo::comm::sparse {

/// `length` positions, of which some have values. Divided by d, position p becomes position `p / d` of part
/// `p % d`, so dense ranges of indices (the frequent words of a language, say) are spread evenly over all
/// parts.
struct SparseBlock {
  std::uint64_t length = 0;
  std::vector<std::uint64_t> positions = {};  ///< ascending
  std::vector<std::byte> values = {};         ///< one row of elements for each position
};

/// How the elements of one position, a row, are stored and added.
struct RowKind {
  std::size_t element_bytes;
  std::size_t width;  ///< elements
  kernels::ReduceFn add;

  std::size_t bytes() const { return element_bytes * width; }
};

/// The positions of part `part` of `length` divided by `parts`.
std::uint64_t part_length(std::uint64_t length, int parts, int part);

/// Inverses of each other: join(divide(block)) is the block.
std::vector<SparseBlock> divide(const SparseBlock& block, int parts, const RowKind& kind);
SparseBlock join(std::vector<SparseBlock> parts, std::uint64_t length, const RowKind& kind);

/// The sum of blocks of one length: local peers are added first, then pairs of local peers. `blocks` is not
/// empty.
SparseBlock add_up(std::vector<SparseBlock> blocks, const RowKind& kind);

/// Bytes on the wire of `count` rows among `length` positions, which both ends know: the values, after a
/// list or a bitmap of their positions, whichever is shorter, or after nothing where there is no gap.
std::uint64_t packed_bytes(std::uint64_t count, std::uint64_t length, std::size_t row_bytes);
/// Appends to `out`.
void pack(const SparseBlock& block, std::size_t row_bytes, std::vector<std::byte>& out);
/// Reads `count` rows; false where the bytes are no such block.
bool unpack(std::span<const std::byte> bytes, std::uint64_t count, std::size_t row_bytes, SparseBlock& out);

/// One bit a position, set where there is a value.
std::vector<std::byte> bitmap(const SparseBlock& block);
/// The positions of the bits that are set, below `length`.
std::vector<std::uint64_t> positions_of(std::span<const std::byte> bitmap, std::uint64_t length);

}  // namespace kolo::comm::sparse
