// Status and Result: errors below the public API, where nothing throws.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kolo/error.hpp"

namespace kolo {

enum class Code { ok, invalid_argument, mismatch, peer_lost, timeout, rendezvous, system, aborted };

/// Success, or a code with a human-readable message and the facts for programs. Cheap to copy; success is a
/// null.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, ErrorContext context = {})
      : fault_(std::make_shared<const Fault>(Fault{code, std::move(message), std::move(context)})) {}

  /// `what: <text of errno>`, with Code::system.
  static Status from_errno(const std::string& what, int error_number);

  bool ok() const noexcept { return fault_ == nullptr; }
  Code code() const noexcept { return fault_ ? fault_->code : Code::ok; }
  const std::string& message() const noexcept;
  const ErrorContext& context() const noexcept;

  /// The same code and context with `prefix: ` before the message.
  Status prefixed(const std::string& prefix) const;

  /// Throws the typed exception of error.hpp for this code; returns on success.
  void throw_if_error() const;
  std::exception_ptr to_exception() const;

 private:
  struct Fault {
    Code code;
    std::string message;
    ErrorContext context;
  };
  std::shared_ptr<const Fault> fault_;
};

/// A value or the Status that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const noexcept { return value_.has_value(); }
  const Status& status() const noexcept { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }

  /// Returns the value, or throws the typed exception.
  T value_or_throw() && {
    status_.throw_if_error();
    return *std::move(value_);
  }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace kolo
