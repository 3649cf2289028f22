#include "kolo/wire.hpp"

#include <cstddef>

namespace kolo {
namespace {

constexpr std::string_view kNames[kWireCount] = {"native", "bfloat16", "float16", "int8"};

}  // namespace

std::string_view name_of(Wire wire) noexcept {
  const auto index = static_cast<std::size_t>(wire);
  return index < kWireCount ? kNames[index] : "unknown";
}

bool parse_wire(std::string_view name, Wire& out) noexcept {
  for (int i = 0; i < kWireCount; ++i) {
    if (kNames[i] != name) continue;
    out = static_cast<Wire>(i);
    return true;
  }
  return false;
}

}  // namespace kolo
