// What the standard library throws for want of memory or threads, as a SystemError.
#pragma once

#include <new>
#include <system_error>

#include "kolo/error.hpp"

namespace kolo::comm {

/// Returns what `make` returns.
template <typename Make>
auto with_system_errors(Make make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    throw SystemError("there is no memory left", {});
  } catch (const std::system_error& error) {
    throw SystemError(error.what(), {});
  }
}

}  // namespace kolo::comm
