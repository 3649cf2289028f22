#include "draw/frames.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "schedule/lengths.hpp"
#include "schedule/message_graph.hpp"
#include "schedule/symbolic_run.hpp"
#include "schedule/timetable.hpp"

namespace kolo::draw {
namespace {

using Events = std::span<const schedule::MessageGraph::Event>;

/// Numbers sets of ranks; equal sets have one number.
class Sets {
 public:
  std::uint32_t number_of(const std::vector<int>& ranks) {
    const auto [at, is_new] = numbers_.try_emplace(ranks, static_cast<std::uint32_t>(sets_.size()));
    if (is_new) sets_.push_back(ranks);
    return at->second;
  }
  bool contains(std::uint32_t whole, std::uint32_t part) const {
    return std::ranges::includes(sets_[whole], sets_[part]);
  }
  /// The sets that are not contained in another set of `of`, in order.
  std::vector<std::uint32_t> largest(std::vector<std::uint32_t> of) const {
    std::ranges::sort(of, {}, [&](std::uint32_t set) { return std::pair(sets_[set], set); });
    of.erase(std::unique(of.begin(), of.end()), of.end());
    std::vector<std::uint32_t> result;
    for (const std::uint32_t one : of) {
      const bool inside =
          std::ranges::any_of(of, [&](std::uint32_t other) { return other != one && contains(other, one); });
      if (!inside) result.push_back(one);
    }
    return result;
  }
  std::vector<std::vector<int>> take() && { return std::move(sets_); }

 private:
  std::map<std::vector<int>, std::uint32_t> numbers_;
  std::vector<std::vector<int>> sets_;
};

/// What the ranks of a call that moves data hold.
class Data {
 public:
  Data(std::span<const schedule::Schedule> schedules, Sets& sets)
      : schedules_(schedules),
        sets_(sets),
        run_(schedules, std::vector<std::uint64_t>(schedule::part_count(schedules[0]), 1),
             schedule::may_be(schedules[0], schedule::Sharing::in_place) ? schedule::Sharing::in_place
                                                                         : schedule::Sharing::separate,
             false) {}

  std::uint32_t parts() const { return schedule::part_count(schedules_[0]); }

  /// The values that the message carries. Valid only before the message has happened.
  std::vector<Value> carried(const schedule::MessageGraph::Event& message) {
    std::vector<schedule::Piece> pieces;
    run_.read(message.step, schedules_[message.step.rank].steps[message.step.step].a, pieces)
        .throw_if_error();
    std::vector<Value> values;
    for (const schedule::Piece& piece : pieces) add_values(piece, values);
    return values;
  }

  void happen(const schedule::MessageGraph::Event& event) { run_.execute(event).throw_if_error(); }

  std::vector<Cell> cells(std::size_t rank) {
    std::vector<std::vector<std::uint32_t>> held(parts());
    std::vector<Value> values;
    for (const auto& [offset, piece] : run_.memory(rank).pieces()) add_values(piece, values);
    for (const Value& value : values) held[value.part].push_back(value.set);
    std::vector<Cell> cells(parts());
    for (std::size_t part = 0; part < cells.size(); ++part) {
      cells[part] = {sets_.largest(std::move(held[part])), false};
    }
    const schedule::Schedule& schedule = schedules_[rank];
    for_each_output(schedule, [&](std::uint32_t, std::uint32_t part) { cells[part].done = true; });
    for_each_output(schedule, [&](std::uint32_t chunk, std::uint32_t part) {
      if (!run_.check_output(schedule, chunk).ok()) cells[part].done = false;
    });
    return cells;
  }

  std::vector<bool> results(std::size_t rank) const {
    std::vector<bool> result(parts(), false);
    for_each_output(schedules_[rank], [&](std::uint32_t, std::uint32_t part) { result[part] = true; });
    return result;
  }

 private:
  // Parts are one element long, so that an element's origin is the number of its part.
  void add_values(const schedule::Piece& piece, std::vector<Value>& out) {
    const std::uint32_t set = sets_.number_of(run_.contributions().ranks(piece.who));
    for (std::uint64_t part = piece.origin; part < piece.origin + piece.length; ++part) {
      out.push_back({static_cast<std::uint32_t>(part), set});
    }
  }

  template <typename Visit>
  void for_each_output(const schedule::Schedule& schedule, Visit visit) const {
    for (std::uint32_t chunk = 0; chunk < schedule::chunk_count(schedule, schedule::BufferName::output);
         ++chunk) {
      visit(chunk, schedule::SymbolicRun::part_of(schedule, chunk));
    }
  }

  std::span<const schedule::Schedule> schedules_;
  Sets& sets_;
  schedule::SymbolicRun run_;
};

/// The ranks that each rank knows to have come to a barrier: one part, without a reduction.
class Presence {
 public:
  Presence(std::span<const schedule::Schedule> schedules, const schedule::MessageGraph& graph, Sets& sets)
      : sets_(sets), steps_(schedule::follow_barrier(schedules, graph)) {
    for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
      known_.emplace_back(schedules.size(), false)[rank] = true;
    }
  }

  std::uint32_t parts() const { return 1; }

  std::vector<Value> carried(const schedule::MessageGraph::Event& message) {
    return {{0, number_of(steps_[message.step.rank][message.step.step])}};
  }

  void happen(const schedule::MessageGraph::Event& event) {
    learn(event.step);
    if (event.is_message) learn(event.receiver);
  }

  std::vector<Cell> cells(std::size_t rank) {
    const bool done = std::ranges::find(known_[rank], false) == known_[rank].end();
    return {{{number_of(known_[rank])}, done}};
  }

  std::vector<bool> results(std::size_t) const { return {true}; }

 private:
  void learn(const schedule::StepRef& at) {
    const schedule::Known& more = steps_[at.rank][at.step];
    for (std::size_t i = 0; i < more.size(); ++i) {
      if (more[i]) known_[at.rank][i] = true;
    }
  }
  std::uint32_t number_of(const schedule::Known& known) {
    std::vector<int> ranks;
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i]) ranks.push_back(static_cast<int>(i));
    }
    return sets_.number_of(ranks);
  }

  Sets& sets_;
  std::vector<std::vector<schedule::Known>> steps_;
  std::vector<schedule::Known> known_;
};

/// Adds up what moves.
class Counter {
 public:
  void add(const Message& message, std::uint64_t chunks) {
    moved_.sent = std::max(moved_.sent, sent_[message.from] += chunks);
    moved_.received = std::max(moved_.received, received_[message.to] += chunks);
    moved_.link = std::max(moved_.link, links_[{message.from, message.to}] += chunks);
  }
  const Moved& moved() const { return moved_; }

 private:
  Moved moved_;
  std::map<int, std::uint64_t> sent_, received_;
  std::map<std::pair<int, int>, std::uint64_t> links_;
};

/// `World`: Data or Presence.
template <typename World>
void play_in(World& world, std::span<const schedule::Schedule> schedules, const schedule::MessageGraph& graph,
             Frames& out) {
  const schedule::Timetable timetable(schedules, graph);
  // By steps. Events of one step keep the order of the graph, so no event comes before its dependencies.
  std::vector<std::size_t> order(graph.events().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t event) { return timetable.step_of(event); });

  out.parts = world.parts();
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) out.results.push_back(world.results(rank));
  Counter counter;
  auto next = order.begin();
  for (std::uint32_t step = 0; step <= timetable.steps(); ++step) {
    Frame& frame = out.frames.emplace_back();
    for (; next != order.end() && timetable.step_of(*next) == step; ++next) {
      const schedule::MessageGraph::Event& event = graph.events()[*next];
      if (event.is_message) {
        const schedule::Step& receive = schedules[event.receiver.rank].steps[event.receiver.step];
        Message message{static_cast<int>(event.step.rank), static_cast<int>(event.receiver.rank),
                        receive.kind == schedule::StepKind::recv_reduce, world.carried(event)};
        counter.add(message, receive.dst.count);
        frame.messages.push_back(std::move(message));
      }
      world.happen(event);
    }
    std::ranges::stable_sort(frame.messages, {}, &Message::from);
    for (std::size_t rank = 0; rank < schedules.size(); ++rank) frame.cells.push_back(world.cells(rank));
    frame.moved = counter.moved();
  }
}

}  // namespace

Frames play(std::span<const schedule::Schedule> schedules) {
  const schedule::MessageGraph graph = schedule::MessageGraph::build(schedules).value_or_throw();
  Frames frames;
  Sets sets;
  if (schedules[0].collective == schedule::Collective::barrier) {
    Presence world(schedules, graph, sets);
    play_in(world, schedules, graph, frames);
  } else {
    Data world(schedules, sets);
    play_in(world, schedules, graph, frames);
  }
  frames.sets = std::move(sets).take();
  return frames;
}

}  // namespace kolo::draw
