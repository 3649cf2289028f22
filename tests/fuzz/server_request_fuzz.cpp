// Fuzzes the requests to a parameter server: see tests/fuzz/CMakeLists.txt.
#include <cstddef>
#include <cstdint>

#include "fuzz/server_request.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kolo::fuzz::server_request({reinterpret_cast<const char*>(data), size});
  return 0;
}
