// The version of the headers; version() tells that of the library.
#pragma once

/// "major.minor.patch" of the headers that a program is compiled with.
#define KOLO_VERSION "0.2.0"

namespace kolo {

/// "major.minor.patch" of the library that is linked. Thread-safe.
const char* version() noexcept;

}  // namespace kolo
