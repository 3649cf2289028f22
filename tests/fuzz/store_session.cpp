// clang++ -std=c++20 -g -fsanitize=fuzzer,address,undefined -Iinclude -Isrc -Itests
// tests/fuzz/store_session.cpp
//   src/rendezvous/{wire,table,session,proof}.cpp src/base/status.cpp -lfmt -lcrypto
#include <cstddef>
#include <cstdint>

#include "fuzz/store_wire.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kolo::fuzz::session({reinterpret_cast<const char*>(data), size});
  return 0;
}
