#include "algorithms/ring.hpp"

namespace kolo {
namespace {

/// The chunk `back` places before this rank's own.
std::uint32_t chunk_before(const ScheduleSpec& spec, int back) {
  return static_cast<std::uint32_t>((spec.rank - back + 2 * spec.size) % spec.size);
}

int next(const ScheduleSpec& spec) {
  return (spec.rank + 1) % spec.size;
}
int previous(const ScheduleSpec& spec) {
  return (spec.rank + spec.size - 1) % spec.size;
}

}  // namespace

void ring_reduce_scatter(ScheduleBuilder& builder, const ScheduleSpec& spec, SumPlace place) {
  ChunkRange outgoing = input(chunk_before(spec, 1));
  for (int round = 0; round + 1 < spec.size; ++round) {
    builder.send(next(spec), outgoing);
    const std::uint32_t chunk = chunk_before(spec, round + 2);
    const ChunkRange sum = place(spec, chunk, static_cast<std::uint32_t>(round));
    builder.recv_reduce(previous(spec), sum, input(chunk), round + 2 == spec.size);
    outgoing = sum;
  }
}

void ring_all_gather(ScheduleBuilder& builder, const ScheduleSpec& spec, ChunkRange own) {
  ChunkRange outgoing = own;
  for (int round = 0; round + 1 < spec.size; ++round) {
    builder.send(next(spec), outgoing);
    outgoing = output(chunk_before(spec, round + 1));
    builder.recv(previous(spec), outgoing);
  }
}

}  // namespace kolo
