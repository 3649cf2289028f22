// What ranks tell each other before they trust that they agree: texts, complaints, and which of them differs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "kolo/communicator.hpp"

namespace kolo::train {

/// Collective: the root's text.
std::string text_from(Communicator& communicator, std::string text, int root);

struct Complaint {
  int rank;
  std::string text;
};
/// Collective: that of the first rank whose text is not empty; nothing if all are.
std::optional<Complaint> first_complaint(Communicator& communicator, const std::string& mine);

/// Collective: where `action` throws on one rank, all ranks throw InvalidArgumentError with what it says on
/// the first such rank. `who` begins the text.
void require_on_all(Communicator& communicator, const std::string& who, const std::function<void()>& action);

/// The first line in which two texts differ, in words; empty if they are equal. `what` is one line.
std::string difference(const std::string& mine, const std::string& others, const std::string& me,
                       const std::string& other, const std::string& what);

/// Collective: the first rank whose text is not rank 0's, and the first line in which they differ, in words;
/// nothing if all are equal. `what` is one line.
std::optional<Complaint> first_difference(Communicator& communicator, const std::string& mine,
                                          const std::string& what);

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

/// Collective: the first rank whose text is not the usual one (see Odd), and the first line in which they
/// differ, in words; nothing if all are equal. Costs eight bytes a rank where they are.
std::optional<Complaint> find_odd_text(Communicator& communicator, const std::string& mine,
                                       const std::string& what);

/// Equal on all machines of one byte order.
std::uint64_t hash_of(const void* data, std::size_t bytes);

}  // namespace kolo::train
