// Lists: calls in which each rank's part is in a buffer of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "engine/listed.hpp"
#include "kolo/buffer.hpp"

namespace kolo::comm {

struct Call;

/// A call's buffers, one of each rank, in place of `in`, of `out` or of both.
struct Lists {
  std::optional<std::span<const ConstBuffer>> in;
  std::optional<std::span<const Buffer>> out;
  // Set by read_lists().
  bool are_read = false;
  std::size_t own = 0;                                           ///< this rank's number
  std::span<const std::uint64_t> counts = {}, recv_counts = {};  ///< for check()
  std::vector<std::uint64_t> in_lengths = {}, out_lengths = {};  ///< of which they are
};

/// Makes `call.in` and `call.out` stand for the lists, as if their parts were in one piece, and finds the
/// counts of the call: what the user gave, or the lengths of the parts. Forgets lists that the call ignores
/// on this rank.
Status read_lists(Call& call, int rank, int size, std::span<const std::uint64_t> counts,
                  std::span<const std::uint64_t> recv_counts);
/// Finds out whether this rank's buffer of a list is the other buffer; any other overlap is wrong.
Status check_overlap_of_lists(const Call& call, bool& in_place);
/// The memory of all parts.
void find_parts(const Lists& lists, engine::Listed& parts);

}  // namespace kolo::comm
