// all_to_all / direct_in_place: direct exchange where input and output may be one memory; one rank of each
// pair uses scratch.
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/turns.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

/// In place, the part from a peer belongs where the part for that peer is. If both ranks of a pair waited for
/// their own message to leave before they receive, neither message would ever be received. So the rank whose
/// message is sent later, because its way around the ranks is longer, receives into scratch. Half way around,
/// both send at the same time and both use scratch.
bool goes_aside(const ScheduleSpec& spec, int k) {
  return 2 * k <= spec.size;
}

schedule::Schedule generate_all_to_all_direct_in_place(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size),
                                    part_of(spec.size / 2));
  // All sends precede all receives, so that in place no part is overwritten before it is sent.
  Turns turns(builder, spec);
  for (int k = 1; k < spec.size; ++k) turns.send(after(spec, k), schedule::input(part_of(after(spec, k))));
  std::uint32_t slot = 0;
  for (int k = 1; k < spec.size; ++k) {
    const int peer = before(spec, k);
    const schedule::ChunkRange to = schedule::output(part_of(peer));
    builder.recv(peer, goes_aside(spec, k) ? schedule::scratch(slot++, to) : to);
  }
  slot = 0;
  for (int k = 1; k < spec.size; ++k) {
    const int peer = before(spec, k);
    const schedule::ChunkRange to = schedule::output(part_of(peer));
    if (goes_aside(spec, k)) builder.copy(to, schedule::scratch(slot++, to));
  }
  builder.copy(schedule::output(part_of(spec.rank)), schedule::input(part_of(spec.rank)));
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_to_all_direct_in_place = {
    .collective = schedule::Collective::all_to_all,
    .name = "direct_in_place",
    .purpose = "Direct exchange where input and output may be one memory: one of each pair uses scratch",
    .use = "In place: every part travels once",
    .source =
        "R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, "
        "IJHPCA 19 (2005), all-to-all, pairwise exchange",
    .closed_form = kPartEachStep,
    .generate = generate_all_to_all_direct_in_place,
};

}  // namespace kolo::algorithms
