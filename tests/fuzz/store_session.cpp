// Fuzzes the sessions of a store's server: see tests/fuzz/CMakeLists.txt.
#include <cstddef>
#include <cstdint>

#include "fuzz/store_wire.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kolo::fuzz::session({reinterpret_cast<const char*>(data), size});
  return 0;
}
