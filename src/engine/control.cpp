#include "engine/control.hpp"

#include <cstring>

namespace kolo::engine {
namespace {

struct FailureHead {
  std::uint32_t code;
  std::int32_t blamed;
  std::uint32_t is_cut;
};
constexpr std::size_t kMaxReason = 4096;

}  // namespace

std::vector<std::byte> encode(const Failure& failure) {
  const FailureHead head{static_cast<std::uint32_t>(failure.code), failure.blamed, failure.is_cut};
  const std::size_t length = std::min(failure.reason.size(), kMaxReason);
  std::vector<std::byte> bytes(sizeof head + length);
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, failure.reason.data(), length);
  return bytes;
}

std::optional<Failure> decode_failure(std::span<const std::byte> bytes) {
  FailureHead head;
  if (bytes.size() < sizeof head || bytes.size() > sizeof head + kMaxReason) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.code == 0 || head.code > static_cast<std::uint32_t>(Code::aborted)) return std::nullopt;
  const auto text = bytes.subspan(sizeof head);
  return Failure{static_cast<Code>(head.code), head.blamed,
                 std::string(reinterpret_cast<const char*>(text.data()), text.size()), head.is_cut != 0};
}

}  // namespace kolo::engine
