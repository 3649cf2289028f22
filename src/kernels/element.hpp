// Plain access to single elements at any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kolo::kernels {

template <typename T>
T load_element(const void* array, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::uint8_t*>(array) + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store_element(void* array, std::size_t i, T value) {
  std::memcpy(static_cast<std::uint8_t*>(array) + i * sizeof(T), &value, sizeof(T));
}

}  // namespace kolo::kernels
