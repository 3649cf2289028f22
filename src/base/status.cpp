#include "base/status.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <exception>
#include <system_error>

#include "kolo/trouble.hpp"

namespace kolo {

Error::Error(const std::string& what, ErrorContext context)
    : std::runtime_error(with_code(what)), context_(std::move(context)) {}

Status Status::from_errno(const std::string& what, int error_number) {
  std::string text = what + ": " + std::generic_category().message(error_number);
  rlimit files{};
  if (error_number == EFBIG && ::getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur != RLIM_INFINITY)
    text += "; ulimit -f allows files of " + std::to_string(files.rlim_cur) + " bytes";
  return Status(Code::system, std::move(text));
}

const std::string& Status::message() const noexcept {
  static const std::string kNone;
  return fault_ ? fault_->message : kNone;
}

const ErrorContext& Status::context() const noexcept {
  static const ErrorContext kNone;
  return fault_ ? fault_->context : kNone;
}

Status Status::prefixed(const std::string& prefix) const {
  return ok() ? *this : Status(code(), prefix + ": " + message(), context());
}

void Status::throw_if_error() const {
  switch (code()) {
    case Code::ok:
      return;
    case Code::invalid_argument:
      throw InvalidArgumentError(message(), context());
    case Code::mismatch:
      throw MismatchError(message(), context());
    case Code::peer_lost:
      throw PeerLostError(message(), context());
    case Code::timeout:
      throw TimeoutError(message(), context());
    case Code::rendezvous:
      throw RendezvousError(message(), context());
    case Code::system:
      throw SystemError(message(), context());
    case Code::aborted:
      throw AbortedError(message(), context());
  }
}

std::exception_ptr Status::to_exception() const {
  try {
    throw_if_error();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace kolo
