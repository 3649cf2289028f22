// SharedMemoryForm: what an algorithm does without messages, where all ranks can read each other's input.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kolo::schedule {

/// `count` elements of a call's whole data (the parts of all ranks, in their order), from element `begin` on.
struct DataRange {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;

  bool operator==(const DataRange&) const = default;
};

/// What a buffer of each rank holds of the whole data.
enum class Held : std::uint8_t { nothing, own_part, all, all_at_root };

/// The range that each rank holds. `parts`: elements of the part of each rank; one for data without parts.
std::vector<DataRange> ranges_of(Held held, std::span<const std::uint64_t> parts, int size, int root);

/// The result is that of the algorithm's schedule, bit for bit: a test holds each form to it.
struct SharedMemoryForm {
  enum class Kind : std::uint8_t {
    copy,            ///< each rank copies all inputs to their places in its output, which holds all data
    reduce_own,      ///< each rank reduces its part of all inputs, in rank order, into its output
    reduce_for_all,  ///< some rank reduces each element of all inputs, in rank order, into all outputs
  };
  Kind kind;
  Held input;  ///< for the other ranks to read; all of the data where ranks reduce

  bool reduces() const { return kind != Kind::copy; }
  /// Then memory is taken back from ranks that are stopped when a call fails.
  bool writes_to_others() const { return kind == Kind::reduce_for_all; }
};

}  // namespace kolo::schedule
