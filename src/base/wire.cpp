#include "kolo/wire.hpp"

#include "base/names.hpp"

namespace kolo {
namespace {

constexpr std::string_view kWireNames[kWireCount] = {"native", "bfloat16", "float16", "int8"};

}  // namespace

std::string_view name_of(Wire wire) noexcept {
  return name_among(kWireNames, wire);
}

bool parse_wire(std::string_view name, Wire& out) noexcept {
  return value_among(kWireNames, name, out);
}

}  // namespace kolo
