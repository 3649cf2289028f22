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
Status check_estimate(const comm::Call& call, std::uint64_t bytes) {
  if (call.collective == schedule::Collective::send_recv)
    return unfit(call.collective, "has no algorithms to choose from");
  if (call.collective == schedule::Collective::barrier && bytes != 0)
    return unfit(call.collective, "has no bytes");
  if (call.count > comm::kMostElements) return unfit(call.collective, "of more than memory can hold");
  return comm::check_wire(call);
}

}  // namespace

Estimate Communicator::estimate(std::string_view collective, std::uint64_t bytes,
                                const CallOptions& options) const {
  constexpr DType kType = DType::float32;
  comm::refuse_inside_reduction("estimate");
  State& s = state();
  comm::Call call;
  call.collective = algorithms::require_collective(collective).value_or_throw();
  call.options = &options;
  call.in.dtype = kType;
  call.count = bytes / size_of(kType) + (bytes % size_of(kType) == 0 ? 0 : 1);
  check_estimate(call, bytes).throw_if_error();
  const Wire wire = s.wire_for(call);
  selection::Choice choice = s.choice_of(call, kType, wire);
  if (wire == Wire::native) choice.bytes = bytes;
  const std::uint64_t segment = options.segment_bytes > 0 ? options.segment_bytes : config().segment_bytes;
  const selection::Cuts cuts{.block = kernels::wire_format(wire).block_bytes(),
                             .segment = static_cast<double>(segment)};
  selection::Expectation expected = s.chooser->expect(choice, cuts).value_or_throw();
  return {
      .time = std::chrono::duration<double>(expected.seconds),
      .algorithm = expected.configured.name(),
      .bytes_sent = expected.most_sent,
      .measured = expected.measured,
      .shared_memory = expected.in_shared_memory,
  };
}

}  // namespace kolo
