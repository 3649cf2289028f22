// Phases: what each message is for (reduce-scatter, broadcast, fold, ...), found from the ranks that give
// parts to others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace kolo::draw {

struct Frames;

/// In the order in which an algorithm goes through them.
enum class Phase : std::uint8_t {
  none,            ///< of a step without messages
  scatter,         ///< the root gives each rank another part
  fold,            ///< a rank gives all its data to one other rank and takes no part until the results come
  reduce,          ///< sums go to fewer ranks than take part
  reduce_scatter,  ///< each rank ends with the sum of other parts
  exchange,        ///< ranks exchange sums until all of them have the same
  arrive,          ///< a barrier's ranks report that they have come
  gather,
  all_to_all,
  all_gather,  ///< each rank gives the parts that it has to all others
  broadcast,   ///< results go from fewer ranks to all
  unfold,      ///< the results go back to a rank that gave its data away
  release,     ///< a barrier's ranks learn that all have come
};

/// "reduce-scatter".
std::string_view name_of(Phase phase);
/// A sentence: what happens in it.
std::string_view meaning_of(Phase phase);

/// Sets Message::phase. `hosts` as ScheduleSpec::hosts.
///
/// Messages with sums that are not complete merge; messages with results spread. Merging messages are the
/// edges of a graph of ranks. If each rank of a strongly connected component is the last one to add some
/// part, the component does a reduce-scatter; if a part has no last rank, it does an exchange. Edges outside
/// components are a tree's, or a fold's if they lead into a component. Spreading messages are named in the
/// same way, from the end.
void find_phases(Frames& frames, schedule::Collective collective, const std::vector<int>& hosts);

/// Consecutive steps with messages of the same phases.
struct Run {
  std::vector<Phase> phases;
  std::size_t begin = 0;  ///< its first step; 1 is the first step of the algorithm
  std::size_t end = 0;    ///< after its last step
};
std::vector<Run> runs_of(const Frames& frames);

/// "reduce-scatter", "reduce and broadcast".
std::string in_words(const std::vector<Phase>& phases, std::string_view before_last = " and ");

}  // namespace kolo::draw
