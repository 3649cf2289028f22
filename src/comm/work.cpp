#include "kolo/work.hpp"

#include "engine/engine.hpp"

namespace kolo {

bool Work::done() const noexcept {
  return operation_ == nullptr || operation_->done();
}

void Work::wait() const {
  if (operation_ == nullptr) return;
  // A finished operation may outlive its engine. The engine's own deadline ends an operation that does not
  // finish.
  if (!operation_->done()) operation_->engine().wait(*operation_, Deadline::never());
  operation_->status().throw_if_error();
}

bool Work::wait(std::chrono::nanoseconds timeout) const {
  if (operation_ == nullptr) return true;
  if (!operation_->done() && !operation_->engine().wait(*operation_, Deadline::after(timeout))) return false;
  operation_->status().throw_if_error();
  return true;
}

std::exception_ptr Work::error() const {
  return done() && operation_ ? operation_->status().to_exception() : nullptr;
}

std::chrono::nanoseconds Work::duration() const noexcept {
  return operation_ ? operation_->duration() : std::chrono::nanoseconds(0);
}

}  // namespace kolo
