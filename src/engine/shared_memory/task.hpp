// Task: a collective in shared memory as a coroutine, which says what it waits for.
#pragma once

#include <coroutine>
#include <cstdint>
#include <utility>

#include "engine/shared_memory/segment.hpp"

namespace kolo::engine::shared_memory {

/// What a task waits for: every rank's `counter` has reached `target`. Or, if `common` is not null, its
/// `finished` has reached `common_target`; then `counter` only tells which ranks to blame, and may be null.
/// If both are null: the driver has polled everything else.
struct Wait {
  CommSlot::Counter CommSlot::*counter = nullptr;
  std::uint64_t target = 0;
  SliceCounters* common = nullptr;
  std::uint64_t common_target = 0;
  bool is_last = false;  ///< this rank has nothing more to do for the call

  bool is_pause() const { return counter == nullptr && common == nullptr; }
};

/// Starts suspended. Belongs to one call, its first argument, and lives in that call's memory: there is only
/// one at a time. Destroying it ends the algorithm where it waits.
class Task {
 public:
  struct promise_type {
    Wait wait;

    /// Takes the call's memory, which is allocated already when calls repeat.
    template <typename Caller>
    static void* operator new(std::size_t bytes, Caller& call, const auto&...) {
      return call.frame_memory(bytes);
    }
    static void operator delete(void* /*memory*/, std::size_t /*bytes*/) {}

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    /// From resume(): there was no memory.
    [[noreturn]] void unhandled_exception() { throw; }
    auto await_transform(Wait next) {
      wait = next;
      return std::suspend_always{};
    }
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  explicit operator bool() const { return handle_ != nullptr; }
  bool done() const { return handle_.done(); }
  const Wait& wait() const { return handle_.promise().wait; }
  void resume() { handle_.resume(); }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

}  // namespace kolo::engine::shared_memory
