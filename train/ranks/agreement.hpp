// What ranks tell each other: texts, complaints, failures, and which of them differs. See agree() too.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/error.hpp"

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

/// Whether the other ranks learn of `error` without being told: it is the communicator's own, or what a
/// collective found.
inline bool comes_to_all(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgumentError&) {
    return false;
  } catch (const Error&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Ends the communicator on all ranks. Nothing where it has failed before: all ranks know of that.
inline void abort_unless_failed(Communicator& communicator, const std::string& reason) noexcept {
  try {
    communicator.abort(reason);
  } catch (const std::exception&) {
    // An earlier failure has reached all ranks.
  }
}

/// In a handler of exceptions: the other ranks learn of the one that it handles, and it is returned.
inline std::exception_ptr tell_others(Communicator& communicator) noexcept {
  const std::exception_ptr error = std::current_exception();
  if (!comes_to_all(error))
    abort_unless_failed(communicator, problem_of([&] { std::rethrow_exception(error); }));
  return error;
}

/// This rank gives up for `reason`: the error that all ranks get.
inline std::exception_ptr leave(Communicator& communicator, const std::string& reason) noexcept {
  const int rank = communicator.rank();
  abort_unless_failed(communicator, reason);
  return std::make_exception_ptr(
      AbortedError("rank " + std::to_string(rank) + " aborted: " + reason, {.peer = rank}));
}

}  // namespace kolo::train
