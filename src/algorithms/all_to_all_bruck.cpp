// all_to_all / bruck: parts travel over distances 1, 2, 4, ..., many in one message, log2(N) rounds.
#include <bit>
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

/// Visits the parts that this round sends: those whose distance to their rank has this bit set. Counted from
/// this rank, they are at the places with that bit.
template <typename Visit>
void for_each_place(int size, int bit, Visit visit) {
  std::uint32_t slot = 0;
  for (int place = bit; place < size; ++place) {
    if (place & bit) visit(place, slot++);
  }
}

schedule::Schedule generate_all_to_all_bruck(const ScheduleSpec& spec) {
  // Two packs of at most N/2 parts each, one to send and one to receive. Between the rounds parts wait in the
  // slots behind them.
  const std::uint32_t most = part_of(spec.size / 2);
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size),
                                    2 * most + part_of(spec.size));
  const auto pack = [&](std::uint32_t first, std::uint32_t slot, std::uint32_t count) {
    return schedule::scratch(first + slot, schedule::input(0, count));
  };
  const auto waiting = [&](int place) {
    return schedule::scratch(2 * most + part_of(place), schedule::input(0));
  };
  for (int bit = 1; bit < spec.size; bit *= 2) {
    std::uint32_t count = 0;
    for_each_place(spec.size, bit, [&](int place, std::uint32_t slot) {
      const bool has_travelled = (place & (bit - 1)) != 0;
      const schedule::ChunkRange from =
          has_travelled ? waiting(place) : schedule::input(part_of(after(spec, place)));
      builder.copy(pack(0, slot, 1), from);
      count = slot + 1;
    });
    builder.send(after(spec, bit), pack(0, 0, count));
    builder.recv(before(spec, bit), pack(most, 0, count));
    for_each_place(spec.size, bit,
                   [&](int place, std::uint32_t slot) { builder.copy(waiting(place), pack(most, slot, 1)); });
  }
  // Only at the end: in place, all of the input must have been sent before.
  for (int place = 1; place < spec.size; ++place) {
    builder.copy(schedule::output(part_of(before(spec, place))), waiting(place));
  }
  builder.copy(schedule::output(part_of(spec.rank)), schedule::input(part_of(spec.rank)));
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_to_all_bruck = {
    .collective = schedule::Collective::all_to_all,
    .name = "bruck",
    .purpose = "Parts travel over distances 1, 2, 4, ..., many in one message, log2(N) rounds",
    .use = "Small parts of equal lengths, many ranks",
    .source =
        "J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all "
        "communications in multiport message-passing systems, IEEE TPDS 8 (1997), section 3",
    .even_parts_only = true,
    .closed_form = {.steps = "ceil(log2 N)",
                    .sent =
                        "(bits that are set in 1, 2, ..., N-1)/N n: log2(N)/2 n where N is a power of two",
                    .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
                      std::uint64_t bits = 0;
                      for (std::uint64_t place = 1; place < n; ++place) {
                        bits += static_cast<std::uint64_t>(std::popcount(place));
                      }
                      return {ceil_log2(n), bits};
                    }},
    .generate = generate_all_to_all_bruck,
};

}  // namespace kolo::algorithms
