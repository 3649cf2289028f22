// What ranks tell each other: texts, complaints, and which of them differs. See agree() too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo::train {

/// Collective: the root's text.
std::string text_from(Communicator& communicator, std::string text, int root);

/// Collective: all ranks' texts, in their order.
std::vector<std::string> texts_of_all(Communicator& communicator, const std::string& mine);

struct Complaint {
  int rank;
  std::string text;
};
/// Collective: that of the first rank whose text is not empty; nothing if all are.
std::optional<Complaint> first_complaint(Communicator& communicator, const std::string& mine);

/// The first line in which the texts of two ranks differ, in words; empty if they are equal.
std::string difference(const std::string& mine, const std::string& others, int rank, int other);

/// A rank whose value is not that of `usual`, the first rank that holds the most frequent value (in a tie,
/// the first rank that holds one of them).
struct Odd {
  int rank;
  int usual;
};
/// The first such rank; nothing if all values are equal.
std::optional<Odd> find_odd(std::span<const std::uint64_t> by_rank);
/// Collective: the same for a value of each rank.
std::optional<Odd> find_odd(Communicator& communicator, std::uint64_t mine);

/// Equal on all machines of one byte order.
std::uint64_t hash_of(const void* data, std::size_t bytes);

}  // namespace kolo::train
