#include "algorithms/survivors.hpp"

#include <bit>
#include <utility>
#include <vector>

namespace kolo::algorithms {
namespace {

/// The number of ranks that are in pairs.
int paired(const ScheduleSpec& spec) {
  return 2 * (spec.size - static_cast<int>(std::bit_floor(static_cast<unsigned>(spec.size))));
}

Group survivors(const ScheduleSpec& spec) {
  const int pairs_end = paired(spec);
  std::vector<int> ranks;
  for (int rank = 0; rank < spec.size; rank += rank < pairs_end ? 2 : 1) ranks.push_back(rank);
  const int place = spec.rank < pairs_end ? spec.rank / 2 : spec.rank - pairs_end / 2;
  return {std::move(ranks), place};
}

}  // namespace

Survivors::Survivors(const ScheduleSpec& spec)
    : group_(survivors(spec)),
      partner_(spec.rank < paired(spec) ? spec.rank ^ 1 : -1),
      survives_(partner_ < 0 || partner_ > spec.rank) {}

schedule::BufferName Survivors::fold_in(schedule::ScheduleBuilder& builder, std::uint32_t chunks) const {
  if (partner_ < 0) return schedule::BufferName::input;
  if (survives_) {
    builder.recv_reduce(partner_, schedule::output(0, chunks), schedule::input(0, chunks), false);
  } else {
    builder.send(partner_, schedule::input(0, chunks));
  }
  return schedule::BufferName::output;
}

void Survivors::tell(schedule::ScheduleBuilder& builder, std::uint32_t chunks) const {
  if (partner_ < 0) return;
  if (survives_) {
    builder.send(partner_, schedule::output(0, chunks));
  } else {
    builder.recv(partner_, schedule::output(0, chunks));
  }
}

}  // namespace kolo::algorithms
