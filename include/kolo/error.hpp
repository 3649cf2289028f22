// What can go wrong, as the user sees it: typed exceptions that name the rank, the problem and the place.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace kolo {

/// The facts behind an error, for programs; what() says the same in words.
struct ErrorContext {
  int peer = -1;                ///< The rank to blame, in the communicator's numbering; -1: unknown.
  std::string collective = {};  ///< "all_reduce", ...; empty outside a collective.
  /// The collective's number on its communicator, from 1: create() and split() make calls of their own, too.
  std::uint64_t sequence = 0;
  int step = -1;                       ///< The schedule's step that was waiting; -1: none.
  std::chrono::nanoseconds waited{0};  ///< How long this rank had waited.
};

/// What all errors of kolo derive from.
class Error : public std::runtime_error {
 public:
  /// `what` says in words what `context` holds. what() adds the code of its cause, see with_code().
  Error(const std::string& what, ErrorContext context);
  /// The rank to blame, the call and the step, for programs.
  const ErrorContext& context() const noexcept { return context_; }

 private:
  ErrorContext context_;
};

/// The caller's arguments cannot be right. Thrown before any byte moves; the communicator stays usable. A
/// communicator's calls name its rank, which is also the `peer` of the context. Only a reduction of the
/// caller's own that throws, and what is wrong with the device of a collective's memory, are found later, and
/// make the communicator unusable.
class InvalidArgumentError : public Error {
 public:
  using Error::Error;
};
/// The name before 0.2.
using InvalidArgument = InvalidArgumentError;

/// The ranks asked for different things. The communicator is unusable from then on.
class MismatchError : public Error {
 public:
  using Error::Error;
};

/// A rank died or closed its connections. The communicator is unusable from then on.
class PeerLostError : public Error {
 public:
  using Error::Error;
};

/// Nothing moved for the timeout of the call or its communicator. The communicator is unusable from then on.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

/// A rank called Communicator::abort(); the text has its reason. The communicator is unusable from then on.
class AbortedError : public Error {
 public:
  using Error::Error;
};

/// The ranks did not find each other: store unreachable, ranks missing, no transport between two of them.
class RendezvousError : public Error {
 public:
  using Error::Error;
};

/// Too few ranks are left to go on: see Communicator::regroup(). A program writes a checkpoint and ends.
class QuorumError : public Error {
 public:
  using Error::Error;
};

/// The operating system refused something (memory, sockets).
class SystemError : public Error {
 public:
  using Error::Error;
};

}  // namespace kolo
