// Work: a collective that was started, and its outcome.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace kolo {

namespace engine {
class Operation;
}

/// The future of an asynchronous collective. Copies refer to the same operation. The buffers of the call stay
/// borrowed until done() is true, also when a Work is dropped or the operation fails. Thread-safe. In a
/// forked child, an operation that the parent has not finished counts as done, with an error.
class Work {
 public:
  Work() = default;
  /// Made by the library.
  explicit Work(std::shared_ptr<engine::Operation> operation) : operation_(std::move(operation)) {}

  /// False for a default-constructed Work, which counts as done.
  bool valid() const noexcept { return operation_ != nullptr; }
  /// True once the result is in place or the operation has failed; never blocks.
  bool done() const noexcept;
  /// Blocks until done, driving progress in this thread; throws the operation's error.
  void wait() const;
  /// The same for at most `timeout`; returns whether the operation is done. The operation itself goes on:
  /// `timeout` does not end it, the communicator's own timeout does.
  bool wait(std::chrono::nanoseconds timeout) const;
  /// Makes progress once, without blocking, unless another thread makes it at this moment; returns done(),
  /// and throws the operation's error.
  bool test() const;
  /// Null while the operation runs and when it succeeded.
  std::exception_ptr error() const;
  /// The time that the operation took from start to end; zero while it runs.
  std::chrono::nanoseconds duration() const noexcept;
  /// The algorithm that the call ran, with its arguments: "ring". Empty for send and recv.
  std::string algorithm() const;
  /// Of a receive that is done: the rank that sent, in the communicator's numbering. -1 for any other Work,
  /// and for a receive that failed before a message had come.
  int source() const noexcept;

 private:
  friend std::optional<std::size_t> wait_any(std::span<const Work>, std::chrono::nanoseconds);
  std::shared_ptr<engine::Operation> operation_;
};

/// Blocks until one of the Works is done, and returns its index; the lowest index if several are done. A Work
/// that has failed counts as done, and its wait() throws. An invalid Work counts as done too. The Works may
/// be of several communicators, also of ones that have no links in common. Thread-safe. Throws
/// InvalidArgument if `works` is empty.
std::size_t wait_any(std::span<const Work> works);
/// The same for at most `timeout`; nullopt if none is done then.
std::optional<std::size_t> wait_any(std::span<const Work> works, std::chrono::nanoseconds timeout);

}  // namespace kolo
