#include "kolo/work.hpp"

#include <thread>

#include "comm/call.hpp"
#include "engine/engine.hpp"

namespace kolo {
namespace {

bool wait_until(const std::shared_ptr<Operation>& operation, const Deadline& deadline) {
  if (operation == nullptr || operation->done() || operation->is_forked_copy()) return true;
  refuse_inside_reduction("wait");
  // While somebody waits the engine lives, even if the last Communicator is destroyed meanwhile.
  if (const auto engine = operation->engine()) return engine->wait(*operation, deadline);
  // It is being destroyed in another thread, which is about to end the operation.
  while (!operation->done()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

/// How an operation ended that is done.
Status outcome(const Operation& operation) {
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

bool Work::wait(std::chrono::nanoseconds timeout) const {
  if (!wait_until(operation_, Deadline::after(timeout))) return false;
  if (operation_ != nullptr) outcome(*operation_).throw_if_error();
  return true;
}

std::exception_ptr Work::error() const {
  return done() && operation_ ? outcome(*operation_).to_exception() : nullptr;
}

std::chrono::nanoseconds Work::duration() const noexcept {
  return operation_ ? operation_->duration() : std::chrono::nanoseconds(0);
}

std::string Work::algorithm() const {
  return operation_ ? operation_->spec().recipe->algorithm : std::string();
}

}  // namespace kolo
