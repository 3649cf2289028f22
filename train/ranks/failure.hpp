// Which errors all ranks get, and which only the rank where they happen.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <exception>
#include <string>

#include "kolo/communicator.hpp"
#include "kolo/error.hpp"

namespace kolo::train {

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
