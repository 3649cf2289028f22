// Function: a C function that was found at run time and returns an error code.
#pragma once

#include <string>

#include "base/status.hpp"
#include "device/library.hpp"

namespace kolo::device {

/// `Codes` tells errors: `static Status status_of(const char* function, int code)`, where 0 is success.
template <typename Codes, typename... Parameters>
class Function {
 public:
  Function(Library& library, const char* name)
      : name_(name), call_(reinterpret_cast<int (*)(Parameters...)>(library.find(name))) {}

  Status operator()(Parameters... parameters) const {
    const int code = call_(parameters...);
    return code == 0 ? Status() : Codes::status_of(name_, code);
  }
  /// The code itself.
  int code(Parameters... parameters) const { return call_(parameters...); }

 private:
  const char* name_;
  int (*call_)(Parameters...);
};

}  // namespace kolo::device
