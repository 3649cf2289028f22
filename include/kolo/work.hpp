// Work: a collective that was started, and its outcome.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kolo {

class Communicator;
namespace engine {
class Operation;
}

/// The future of an asynchronous collective. Copies refer to the same operation. The buffers of the call stay
/// borrowed until done() is true, also when a Work is dropped or the operation fails. Thread-safe. In a
/// forked child, an operation that the parent has not finished counts as done, with an error.
class [[nodiscard]] Work {
 public:
  Work() = default;
  /// Made by the library.
  explicit Work(std::shared_ptr<engine::Operation> operation) : operation_(std::move(operation)) {}

  /// False for a default-constructed Work, which counts as done.
  bool valid() const noexcept { return operation_ != nullptr; }
  /// True once the result is in place or the operation has failed; never blocks.
  [[nodiscard]] bool done() const noexcept;
  /// Blocks until done, driving progress in this thread; throws the operation's error.
  void wait() const;
  /// The same for at most `timeout`; returns whether the operation is done. The operation itself goes on:
  /// `timeout` does not end it, the communicator's own timeout does.
  [[nodiscard]] bool wait(std::chrono::nanoseconds timeout) const;
  /// Work that is put on `stream` (cudaStream_t) from now on sees the result. Returns when NCCL has the
  /// call; where the host carries it out, it is wait(). An error that comes later is wait()'s.
  void order(void* stream) const;
  /// Makes progress once, without blocking, unless another thread makes it at this moment; returns done(),
  /// and throws the operation's error.
  bool test() const;
  /// Calls `callback` once, when this Work is done, with this Work: its error() is the outcome. Returns at
  /// once. All callbacks of a communicator, and of those that share its links, run one after another on one
  /// thread of kolo's, in the order in which their Works are done; several of one Work in the order of their
  /// then(). A Work that is done already is the last of them.
  ///
  /// A callback holds no lock of kolo's. It may start calls and wait, also for long: meanwhile only the
  /// callbacks behind it wait too. It may destroy the last Work and the last Communicator. An exception of it
  /// is logged with the call's name, and goes no further. Signals of the process are blocked there.
  ///
  /// The end of the last Communicator ends its operations with an error, and returns when all callbacks have,
  /// unless it is called within a callback. So do not hold there a lock that a callback takes. A callback
  /// that is given to a Work after that, or to an invalid Work, runs on a thread of its own. Throws
  /// InvalidArgumentError for an empty function and in a forked child, SystemError if there are no more
  /// threads.
  void then(std::function<void(const Work&)> callback) const;
  /// Null while the operation runs and when it succeeded.
  [[nodiscard]] std::exception_ptr error() const;
  /// The time that the operation took from start to end; zero while it runs.
  std::chrono::nanoseconds duration() const noexcept;
  /// The algorithm that the call ran, with its arguments: "ring". Empty for send and recv.
  std::string algorithm() const;
  /// Of a receive that is done: the rank that sent, in the communicator's numbering. -1 for any other Work,
  /// and for a receive that failed before a message had come.
  int source() const noexcept;
  /// Of a Work that is not done: the ranks, in the communicator's numbering, whose part is missing, as far as
  /// this rank can tell without asking. In a collective these may wait for others themselves.
  std::vector<int> waiting_for() const;

 private:
  friend class Communicator;
  friend std::optional<std::size_t> wait_any(std::span<const Work>, std::chrono::nanoseconds);
  friend bool wait_all(std::span<const Work>, std::chrono::nanoseconds);
  std::shared_ptr<engine::Operation> operation_;
};

/// Blocks until one of the Works is done, and returns its index; the lowest index if several are done. A Work
/// that has failed counts as done, and its wait() throws. An invalid Work counts as done too. The Works may
/// be of several communicators, also of ones that have no links in common. Thread-safe. Throws
/// InvalidArgumentError if `works` is empty.
[[nodiscard]] std::size_t wait_any(std::span<const Work> works);
/// The same for at most `timeout`; nullopt if none is done then.
[[nodiscard]] std::optional<std::size_t> wait_any(std::span<const Work> works,
                                                  std::chrono::nanoseconds timeout);

/// Blocks until all Works are done, those that fail too, and then throws the error of the first that has
/// failed, in the order of `works`. An invalid Work counts as done. Thread-safe.
void wait_all(std::span<const Work> works);
/// The same for at most `timeout`; false, and no error, if not all are done then.
[[nodiscard]] bool wait_all(std::span<const Work> works, std::chrono::nanoseconds timeout);

}  // namespace kolo
