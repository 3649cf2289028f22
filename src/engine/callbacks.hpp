// Callbacks: what is to be called when operations are done, and the thread that calls it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

namespace kolo::engine {

class Operation;

/// A callback may do what a caller may do: block, start calls, drop the last Communicator. So it runs under
/// no lock, and on a thread that the engine's progress does not need. While no other thread waits, that
/// thread also drives fresh operations: then the end of an operation wakes no thread.
class Callbacks {
 public:
  /// Throws nothing.
  using Callback = std::function<void(std::shared_ptr<Operation>)>;
  struct Entry {
    std::shared_ptr<Operation> operation;  ///< set once it is done
    Callback callback;
  };
  using Entries = std::list<Entry>;

  /// Starts the thread. It calls `drive` when there are fresh operations, for at most as long as has_news()
  /// is false. Without `drive` it ends when all entries are called. Throws SystemError if the system has no
  /// more threads.
  static std::shared_ptr<Callbacks> start(std::function<void()> drive, Entries ready = {});

  /// All that follow are thread-safe.
  /// There is an operation with a callback that `drive` has not driven.
  void expect();
  /// To be called after all entries that were added before.
  void add(Entries&& ready) noexcept;
  /// `drive` must return.
  bool has_news() const noexcept { return has_news_.load(std::memory_order_relaxed); }
  /// Returns when `drive` has, and is not called any more.
  void stop_driving();
  /// After stop_driving(): returns when all entries are called. Within a callback, of whichever engine, it
  /// returns at once: two threads could wait for each other.
  void finish();

 private:
  void run();

  std::function<void()> drive_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Entries ready_;
  bool is_fresh_ = false;
  bool is_driving_ = false;
  bool is_closed_ = false;
  bool has_ended_ = false;
  // Written under the mutex; relaxed, because the mutex orders what the reader then looks at.
  std::atomic<bool> has_news_{false};
};

}  // namespace kolo::engine
