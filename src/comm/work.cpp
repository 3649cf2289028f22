#include "kolo/work.hpp"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.hpp"
#include "comm/call.hpp"
#include "comm/state.hpp"
#include "engine/completion.hpp"
#include "engine/engine.hpp"

namespace kolo {
namespace {

bool wait_until(const std::shared_ptr<engine::Operation>& operation, const Deadline& deadline) {
  if (operation == nullptr || operation->done() || operation->is_forked_copy()) return true;
  comm::refuse_inside_reduction("wait");
  // The engine lives while a thread waits, even if the last Communicator is destroyed meanwhile.
  if (const auto engine = operation->engine()) return engine->wait(*operation, deadline);
  // Another thread is destroying the engine, and is about to end the operation.
  while (!operation->done()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

/// Returns when one of several operations is done, at the deadline, or earlier. Several engines may run them.
void wait_until_any(std::span<const std::shared_ptr<engine::Operation>> operations,
                    const Deadline& deadline) {
  std::vector<std::shared_ptr<engine::Engine>> engines;
  std::vector<const engine::Operation*> pointers;
  for (const auto& operation : operations) {
    engines.push_back(operation->engine());
    pointers.push_back(operation.get());
  }
  if (engines.front() != nullptr && std::ranges::count(engines, engines.front()) == std::ssize(engines)) {
    engines.front()->wait_any(pointers, deadline);
    return;
  }
  engine::Completion completion;
  bool is_done = false;
  std::size_t watched = 0;
  for (; watched < operations.size() && !is_done; ++watched) {
    // An engine that is being destroyed ends its operations.
    is_done = engines[watched] == nullptr || !engines[watched]->notify(*operations[watched], completion);
  }
  if (!is_done) completion.wait(deadline);
  for (std::size_t i = 0; i < watched; ++i) {
    if (engines[i] != nullptr) engines[i]->forget(*operations[i], completion);
  }
}

/// "rank 1: the callback of call 5, all_reduce(sum of 4 float32, ring), has thrown: why"
void log_throw(const engine::Operation* operation, const char* why) {
  if (operation == nullptr) return log().error("a callback has thrown: {}", why);
  const engine::OperationSpec& spec = operation->spec();
  const auto engine = operation->engine();
  const std::string rank = engine == nullptr ? "" : fmt::format("rank {}: ", engine->rank());
  const std::string call = spec.call > 0 ? fmt::format("call {}", spec.call) : "a message";
  log().error("{}the callback of {}, {}, has thrown: {}", rank, call, comm::describe(spec.signature), why);
}

/// The outcome of an operation that is done.
Status outcome(const engine::Operation& operation) {
  return operation.is_forked_copy() ? operation.refusal() : operation.status();
}

}  // namespace

bool Work::done() const noexcept {
  return operation_ == nullptr || operation_->done() || operation_->is_forked_copy();
}

void Work::wait() const {
  // The engine's own deadline ends an operation that does not finish.
  wait_until(operation_, Deadline::never());
  if (operation_ != nullptr) outcome(*operation_).throw_if_error();
}

void Work::order(void* stream) const {
  if (operation_ == nullptr || !operation_->order(stream)) wait();  // the device has the result then
}

bool Work::wait(std::chrono::nanoseconds timeout) const {
  if (!wait_until(operation_, Deadline::after(timeout))) return false;
  if (operation_ != nullptr) outcome(*operation_).throw_if_error();
  return true;
}

bool Work::test() const {
  if (!done()) {
    comm::refuse_inside_reduction("test");
    if (const auto engine = operation_->engine()) engine->test(*operation_);
  }
  if (!done()) return false;
  if (operation_ != nullptr) outcome(*operation_).throw_if_error();
  return true;
}

void Work::then(std::function<void(const Work&)> callback) const {
  if (callback == nullptr) throw InvalidArgumentError("then: the callback is empty", {});
  comm::refuse_inside_reduction("then");
  if (operation_ != nullptr && !operation_->is_here()) operation_->refusal().throw_if_error();
  auto call = [callback = std::move(callback)](std::shared_ptr<engine::Operation> operation) {
    const Work work(std::move(operation));
    try {
      callback(work);
    } catch (const std::exception& error) {
      log_throw(work.operation_.get(), error.what());
    } catch (...) {
      log_throw(work.operation_.get(), "no std::exception");
    }
  };
  if (const auto engine = operation_ != nullptr ? operation_->engine() : nullptr)
    return engine->then(operation_, std::move(call));
  wait_until(operation_, Deadline::never());
  engine::Callbacks::Entries entry;
  entry.push_back({operation_, std::move(call)});
  engine::Callbacks::start(nullptr, std::move(entry));
}

std::exception_ptr Work::error() const {
  return done() && operation_ ? outcome(*operation_).to_exception() : nullptr;
}

std::chrono::nanoseconds Work::duration() const noexcept {
  return operation_ ? operation_->duration() : std::chrono::nanoseconds(0);
}

std::string Work::algorithm() const {
  return operation_ ? operation_->algorithm() : std::string();
}

int Work::source() const noexcept {
  return operation_ != nullptr && operation_->done() ? std::max(operation_->source(), -1) : -1;
}

std::vector<int> Work::waiting_for() const {
  const auto engine = done() ? nullptr : operation_->engine();
  return engine == nullptr ? std::vector<int>() : engine->waiting_for(*operation_);
}

std::size_t wait_any(std::span<const Work> works) {
  while (true) {
    if (const auto found = wait_any(works, std::chrono::hours(1))) return *found;
  }
}

std::optional<std::size_t> wait_any(std::span<const Work> works, std::chrono::nanoseconds timeout) {
  if (works.empty()) throw InvalidArgumentError("wait_any: there is no Work to wait for", {});
  const auto deadline = Deadline::after(timeout);
  const auto find = [&]() -> std::optional<std::size_t> {
    const auto found = std::ranges::find_if(works, &Work::done);
    if (found == works.end()) return std::nullopt;
    return static_cast<std::size_t>(found - works.begin());
  };
  auto found = find();
  if (found) return found;
  comm::refuse_inside_reduction("wait_any");
  std::vector<std::shared_ptr<engine::Operation>> operations;
  for (const Work& work : works) operations.push_back(work.operation_);
  while (!found && !deadline.passed()) {
    wait_until_any(operations, deadline);
    found = find();
  }
  return found;
}

void wait_all(std::span<const Work> works) {
  while (!wait_all(works, std::chrono::hours(1))) {
  }
}

bool wait_all(std::span<const Work> works, std::chrono::nanoseconds timeout) {
  const auto deadline = Deadline::after(timeout);
  for (const Work& work : works) {
    if (!wait_until(work.operation_, deadline)) return false;
  }
  for (const Work& work : works) work.wait();
  return true;
}

}  // namespace kolo
