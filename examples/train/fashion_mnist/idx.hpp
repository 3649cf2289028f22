// Reads IDX files (the format of MNIST and its kin), plain or gzip'd.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fashion_mnist {

/// An array of bytes: `dimensions` as the file's header says, `values` in row-major order.
struct IdxArray {
  std::vector<std::int64_t> dimensions;
  std::vector<std::uint8_t> values;
};

/// Throws std::runtime_error that names the file when it cannot be read, is cut short or is no IDX file of
/// bytes.
IdxArray read_idx(const std::string& path);

}  // namespace fashion_mnist
