#include "draw/phases.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "draw/frames.hpp"

namespace kolo::draw {
namespace {

using schedule::Collective;

struct PhaseText {
  std::string_view name, meaning;
};

/// By Phase.
constexpr PhaseText kPhases[] = {
    {"", ""},
    {"scatter", "The root gives each rank another part of the data."},
    {"fold",
     "Ranks that do not fit the pattern give all their data to another rank and wait for the result."},
    {"reduce", "Sums are collected on fewer and fewer ranks."},
    {"reduce-scatter", "Each rank ends with the complete sum of a part of the data."},
    {"exchange", "Ranks exchange all that they have and add it up, until each has the complete sum."},
    {"arrive", "Ranks report that they have come."},
    {"gather", "The parts of all ranks go to the root."},
    {"all-to-all", "Each rank gives every other rank a part of its own."},
    {"all-gather", "Each rank gives the parts that it has to all others."},
    {"broadcast", "Results go from few ranks to all."},
    {"unfold", "Ranks that gave their data away get the result."},
    {"release", "Ranks learn that all have come."},
};

/// What the ranks of a strongly connected component do with the parts that they give to one another.
enum class Component : std::uint8_t {
  none,     ///< no other rank is in the component
  shares,   ///< each rank is the end of some part
  few,      ///< some ranks are the end of no part
  endless,  ///< a part has no end, or several
};

/// Who gives which parts to whom, whenever. An end of a part is a rank that gets it from a rank of its
/// strongly connected component and does not give it to another one of them.
class Flow {
 public:
  explicit Flow(int ranks)
      : count_(static_cast<std::size_t>(ranks)), reaches_(count_ * count_, false), peers_(count_) {}

  void add(int from, int to, std::uint32_t part) {
    edges_.push_back({at(from), at(to), part});
    peers_[at(from)].insert(at(to));
  }

  void finish(std::uint32_t parts) {
    for (const Edge& edge : edges_) reaches_[edge.from * count_ + edge.to] = true;
    // S. Warshall: A theorem on Boolean matrices, JACM 9 (1962).
    for (std::size_t via = 0; via < count_; ++via) {
      for (std::size_t from = 0; from < count_; ++from) {
        for (std::size_t to = 0; reaches_[from * count_ + via] && to < count_; ++to) {
          if (reaches_[via * count_ + to]) reaches_[from * count_ + to] = true;
        }
      }
    }
    components_.assign(count_, Component::none);
    for (std::size_t rank = 0; rank < count_; ++rank) {
      if (!reaches_[rank * count_ + rank] || components_[rank] != Component::none) continue;
      const Component found = component_at(rank, parts);
      for (std::size_t other = 0; other < count_; ++other) {
        if (same_component(rank, other)) components_[other] = found;
      }
    }
  }

  Component component_of(int rank) const { return components_[at(rank)]; }
  bool in_component(int from, int to) const { return same_component(at(from), at(to)); }
  /// Number of ranks that it gives parts to.
  std::size_t peers_of(int from) const { return peers_[at(from)].size(); }

 private:
  struct Edge {
    std::size_t from, to;
    std::uint32_t part;
  };

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  bool same_component(std::size_t one, std::size_t other) const {
    return reaches_[one * count_ + other] && reaches_[other * count_ + one];
  }

  Component component_at(std::size_t rank, std::uint32_t parts) const {
    std::vector<std::set<std::size_t>> gives(parts), gets(parts);
    for (const Edge& edge : edges_) {
      if (!same_component(rank, edge.from) || !same_component(rank, edge.to)) continue;
      gives[edge.part].insert(edge.from);
      gets[edge.part].insert(edge.to);
    }
    std::set<std::size_t> ends;
    std::set<std::size_t> members;
    for (std::uint32_t part = 0; part < parts; ++part) {
      if (gets[part].empty()) continue;
      std::vector<std::size_t> last;
      std::ranges::set_difference(gets[part], gives[part], std::back_inserter(last));
      if (last.size() != 1) return Component::endless;
      ends.insert(last[0]);
      members.insert(gives[part].begin(), gives[part].end());
    }
    members.insert(ends.begin(), ends.end());
    return ends == members ? Component::shares : Component::few;
  }

  std::size_t count_;
  std::vector<bool> reaches_;  // [from][to], through others too
  std::vector<Edge> edges_;
  std::vector<std::set<std::size_t>> peers_;
  std::vector<Component> components_;
};

/// The names of one direction of a flow.
struct Names {
  Phase tree, fold, shares, endless;
};

/// The phase of the messages from `from` to `to`, both as in `flow`; `other`: the flow of the other
/// direction.
Phase phase_in(const Flow& flow, const Flow& other, int from, int to, const std::vector<int>& hosts,
               const Names& names) {
  if (flow.in_component(from, to)) {
    switch (flow.component_of(from)) {
      case Component::shares:
        return names.shares;
      case Component::endless:
        return names.endless;
      default:
        return names.tree;
    }
  }
  const auto is_in_a_component = [&](int rank) {
    return flow.component_of(rank) != Component::none || other.component_of(rank) != Component::none;
  };
  // Parts for different ranks of a component, from a smaller component or from a rank outside.
  const bool divides = flow.peers_of(from) > 1 && flow.component_of(to) == Component::shares;
  if (divides || flow.component_of(from) == Component::shares) return names.shares;
  const auto host = [&](int rank) { return hosts[static_cast<std::size_t>(rank)]; };
  const bool inside_host = !hosts.empty() && host(from) == host(to);
  if (is_in_a_component(to) && !inside_host && flow.peers_of(from) == 1) return names.fold;
  return names.tree;
}

/// A broadcast in which ranks get parts from several ranks is a scatter followed by an all-gather: the first
/// step in which a rank gets something is the scatter's.
void find_phases_of_broadcast(Frames& frames) {
  std::vector<std::set<int>> senders(static_cast<std::size_t>(frames.ranks()));
  for (const Frame& frame : frames.frames) {
    for (const Message& message : frame.messages) {
      senders[static_cast<std::size_t>(message.to)].insert(message.from);
    }
  }
  const bool scatters = std::ranges::any_of(senders, [](const auto& some) { return some.size() > 1; });
  std::vector<bool> has_some(senders.size(), false);
  for (Frame& frame : frames.frames) {
    for (Message& message : frame.messages) {
      const auto to = static_cast<std::size_t>(message.to);
      message.phase = !scatters ? Phase::broadcast : has_some[to] ? Phase::all_gather : Phase::scatter;
      has_some[to] = true;
    }
  }
}

bool merges(const Frames& frames, const Message& message) {
  if (message.reduces) return true;
  const auto all = static_cast<std::size_t>(frames.ranks());
  return std::ranges::any_of(message.values,
                             [&](const Value& value) { return frames.sets[value.set].size() < all; });
}

void find_phases_of_sums(Frames& frames, const std::vector<int>& hosts, const Names& merging,
                         const Names& spreading) {
  Flow merge(frames.ranks());
  Flow spread(frames.ranks());  // from the end: from receivers to senders
  for (const Frame& frame : frames.frames) {
    for (const Message& message : frame.messages) {
      const bool is_merge = merges(frames, message);
      for (const Value& value : message.values) {
        if (is_merge) {
          merge.add(message.from, message.to, value.part);
        } else {
          spread.add(message.to, message.from, value.part);
        }
      }
    }
  }
  merge.finish(frames.parts);
  spread.finish(frames.parts);
  for (Frame& frame : frames.frames) {
    for (Message& message : frame.messages) {
      message.phase = merges(frames, message)
                          ? phase_in(merge, spread, message.from, message.to, hosts, merging)
                          : phase_in(spread, merge, message.to, message.from, hosts, spreading);
    }
  }
}

void set_all(Frames& frames, Phase phase) {
  for (Frame& frame : frames.frames) {
    for (Message& message : frame.messages) message.phase = phase;
  }
}

}  // namespace

std::string_view name_of(Phase phase) {
  return kPhases[static_cast<std::size_t>(phase)].name;
}

std::string_view meaning_of(Phase phase) {
  return kPhases[static_cast<std::size_t>(phase)].meaning;
}

void find_phases(Frames& frames, Collective collective, const std::vector<int>& hosts) {
  switch (collective) {
    default:
      return find_phases_of_sums(frames, hosts,
                                 {Phase::reduce, Phase::fold, Phase::reduce_scatter, Phase::exchange},
                                 {Phase::broadcast, Phase::unfold, Phase::all_gather, Phase::all_gather});
    case Collective::barrier:
      return find_phases_of_sums(frames, hosts,
                                 {Phase::arrive, Phase::fold, Phase::exchange, Phase::exchange},
                                 {Phase::release, Phase::unfold, Phase::release, Phase::release});
    case Collective::broadcast:
      return find_phases_of_broadcast(frames);
    case Collective::all_gather:
      return set_all(frames, Phase::all_gather);
    case Collective::scatter:
      return set_all(frames, Phase::scatter);
    case Collective::gather:
      return set_all(frames, Phase::gather);
    case Collective::all_to_all:
      return set_all(frames, Phase::all_to_all);
    case Collective::send_recv:
      return;
  }
}

std::vector<Run> runs_of(const Frames& frames) {
  std::vector<Run> runs;
  for (std::size_t step = 1; step < frames.frames.size(); ++step) {
    std::set<Phase> phases;
    for (const Message& message : frames.frames[step].messages) phases.insert(message.phase);
    std::vector<Phase> list(phases.begin(), phases.end());
    if (runs.empty() || runs.back().phases != list) runs.push_back({std::move(list), step, step});
    runs.back().end = step + 1;
  }
  return runs;
}

std::string in_words(const std::vector<Phase>& phases, std::string_view before_last) {
  std::string text;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (i > 0) text += i + 1 == phases.size() ? before_last : ", ";
    text += name_of(phases[i]);
  }
  return text;
}

}  // namespace kolo::draw
