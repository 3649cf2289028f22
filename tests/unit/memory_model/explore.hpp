// explore(): every execution of a small program that the memory model allows.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "execution.hpp"

namespace kolo::test::memory {

/// The next operation of a thread; its `co_await` returns the value read.
struct Operation {
  Kind kind = Kind::fence;
  Order order = Order::plain;
  std::size_t location = kNone;
  std::function<int(int)> written = {};  ///< from the value read, if any
  std::function<bool(int)> accepts =
      {};  ///< predicate of the value read; the thread waits for a value that it accepts
};

/// A thread of a program: a coroutine.
class Thread {
 public:
  struct promise_type {
    Operation next;
    int value = 0;

    Thread get_return_object() { return Thread(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    [[noreturn]] void unhandled_exception() { std::terminate(); }
    auto await_transform(Operation operation) {
      struct Awaiter {
        promise_type& promise;
        bool await_ready() const { return false; }
        void await_suspend(std::coroutine_handle<>) const {}
        int await_resume() const { return promise.value; }
      };
      next = std::move(operation);
      return Awaiter{*this};
    }
  };

  Thread(Thread&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Thread& operator=(Thread&&) = delete;
  ~Thread() {
    if (handle_) handle_.destroy();
  }

  bool done() const { return handle_.done(); }
  const Operation& next() const { return handle_.promise().next; }
  void resume(int value) {
    handle_.promise().value = value;
    handle_.resume();
  }

 private:
  explicit Thread(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

/// A memory location. Its operations decide whether it is atomic or plain.
class Cell {
 public:
  explicit Cell(std::size_t location) : location_(location) {}

  Operation load(Order order) const { return {Kind::read, order, location_}; }
  Operation store(int value, Order order) const { return {Kind::write, order, location_, constant(value)}; }
  Operation exchange(int value, Order order) const {
    return {Kind::update, order, location_, constant(value)};
  }
  Operation fetch_or(int bits, Order order) const {
    return {Kind::update, order, location_, [bits](int old) { return old | bits; }};
  }
  Operation fetch_add(int more, Order order) const {
    return {Kind::update, order, location_, [more](int old) { return old + more; }};
  }
  /// Loads until the value is at least, or exactly, this value. Never returns if no write stores such a
  /// value.
  Operation wait_for_at_least(int value, Order order) const {
    return {Kind::read, order, location_, {}, [value](int seen) { return seen >= value; }};
  }
  Operation wait_for(int value, Order order) const {
    return {Kind::read, order, location_, {}, [value](int seen) { return seen == value; }};
  }
  Operation read() const { return {Kind::read, Order::plain, location_}; }
  Operation write(int value) const { return {Kind::write, Order::plain, location_, constant(value)}; }

 private:
  static std::function<int(int)> constant(int value) {
    return [value](int) { return value; };
  }

  std::size_t location_;
};

inline Operation fence(Order order) {
  return {Kind::fence, order};
}

/// A program. It is created anew for every step of every execution, so its threads may keep state in it and
/// in themselves, but not outside.
class World {
 public:
  Cell cell(std::string name, int value = 0) {
    cells_.push_back(std::move(name));
    values_.push_back(value);
    return Cell(cells_.size() - 1);
  }
  void run(std::string name, Thread thread) {
    names_.push_back(std::move(name));
    threads_.push_back(std::move(thread));
  }
  /// For threads: states a condition that must hold.
  void require(bool holds, const std::string& what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }
  /// For threads: records numbers of the outcome of the execution.
  std::vector<int> seen = std::vector<int>(4, 0);

 private:
  friend class Explorer;

  std::vector<std::string> cells_;
  std::vector<int> values_;
  std::vector<std::string> names_;
  std::vector<Thread> threads_;
  std::string wrong_;
};

struct Findings {
  std::string wrong;  ///< the first violation (a condition, a race or an endless wait) and the execution that
                      ///< leads to it; empty: none
  std::set<std::vector<int>> outcomes;  ///< World::seen of all executions that ended
  std::size_t executions = 0;           ///< explored executions, including unfinished ones
};

/// `program` creates its cells and threads in the given world. Stops at the first violation.
Findings explore(const std::function<void(World&)>& program);

}  // namespace kolo::test::memory
