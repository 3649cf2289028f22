// Work: a collective that was started, and what became of it.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <string>

namespace kolo {

class Operation;

/// The future of an asynchronous collective. Copies refer to the same operation. The buffers of the call stay
/// borrowed until done() is true, also when a Work is dropped or the operation fails. Thread-safe.
/// In a forked child an operation that its parent has not finished is done, with an error.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}

  /// False for a default-constructed Work, which counts as done.
  bool valid() const noexcept { return operation_ != nullptr; }
  /// True once the result is in place or the operation has failed; never blocks.
  bool done() const noexcept;
  /// Blocks until done, driving progress in this thread; throws the operation's error.
  void wait() const;
  /// The same for at most `timeout`; returns whether the operation is done. The operation itself goes on:
  /// what ends it is the communicator's own timeout.
  bool wait(std::chrono::nanoseconds timeout) const;
  /// Null while the operation runs and when it succeeded.
  std::exception_ptr error() const;
  /// The time that the operation took from start to end; zero while it runs.
  std::chrono::nanoseconds duration() const noexcept;
  /// The algorithm that the call ran, with its arguments: "ring". Empty for send and recv.
  std::string algorithm() const;

 private:
  std::shared_ptr<Operation> operation_;
};

}  // namespace kolo
