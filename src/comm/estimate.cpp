// Communicator::estimate(): the chooser's expectation of a call that is not made.
#include "kolo/estimate.hpp"

#include <fmt/format.h>

#include "base/config.hpp"
#include "comm/state.hpp"
#include "kernels/wire_format.hpp"

namespace kolo {
namespace {

Status unfit(schedule::Collective collective, std::string_view why) {
  return Status(Code::invalid_argument, fmt::format("estimate: {} {}", schedule::name_of(collective), why));
}

/// Fails for arguments that no call can have.
Status check_estimate(const schedule::CallKey& key, std::uint64_t bytes, const CallOptions& options) {
  if (key.collective == schedule::Collective::send_recv)
    return unfit(key.collective, "has no algorithms to choose from");
  if (key.collective == schedule::Collective::barrier && bytes != 0)
    return unfit(key.collective, "has no bytes");
  if (bytes > std::uint64_t{1} << 61) return unfit(key.collective, "of more than memory can hold");
  return comm::check_wire(key, options.wire.value_or(Wire::native));
}

}  // namespace

Estimate Communicator::estimate(std::string_view collective, std::uint64_t bytes,
                                const CallOptions& options) const {
  constexpr DType kType = DType::float32;
  comm::refuse_inside_reduction("estimate");
  State& s = state();
  schedule::CallKey key{.collective = algorithms::require_collective(collective).value_or_throw(),
                        .dtype = kType,
                        .count = bytes / size_of(kType) + (bytes % size_of(kType) == 0 ? 0 : 1)};
  check_estimate(key, bytes, options).throw_if_error();
  s.apply(options, key);
  const kernels::WireFormat format = kernels::wire_format(key.wire);
  const selection::Cuts cuts{.block = format.block_bytes(),
                             .segment = static_cast<double>(key.segment_bytes)};
  const std::uint64_t sent = key.is_rounded() ? format.bytes(key.count) : bytes;
  const selection::Expectation expected =
      s.chooser->expect(key, sent, cuts, config().algorithm).value_or_throw();
  return {
      .time = std::chrono::duration<double>(expected.seconds),
      .algorithm = expected.configured.name(),
      .bytes_sent = expected.most_sent,
      .measured = expected.measured,
      .shared_memory = expected.in_shared_memory,
  };
}

}  // namespace kolo
