// Fuzzes the files of a checkpoint: see tests/fuzz/CMakeLists.txt.
#include <cstddef>
#include <cstdint>

#include "fuzz/checkpoint_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kolo::fuzz::checkpoint_files({reinterpret_cast<const char*>(data), size});
  return 0;
}
