// Fuzzes the requests to the metrics server: see tests/fuzz/CMakeLists.txt.
#include <cstddef>
#include <cstdint>

#include "fuzz/http_request.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kolo::fuzz::http_request({reinterpret_cast<const char*>(data), size});
  return 0;
}
