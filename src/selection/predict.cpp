#include "selection/predict.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <functional>
#include <queue>

#include "schedule/lengths.hpp"
#include "schedule/message_graph.hpp"

namespace kolo::selection {
namespace {

class Play {
 public:
  Play(std::span<const schedule::Schedule> schedules, const schedule::MessageGraph& graph,
       std::span<const std::uint64_t> part_bytes, std::span<const int> hosts, const CostModel& model,
       const BandwidthMatrix& bandwidth, const PlayLimits& limits)
      : schedules_(schedules),
        graph_(graph),
        model_(model),
        bandwidth_(bandwidth),
        links_(bandwidth),
        rank_free_(schedules.size(), 0),
        waiting_(schedules.size()) {
    const std::size_t host_count =
        hosts.empty() ? 1 : static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1;
    core_free_.resize(host_count);
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      host_of_.push_back(hosts.empty() ? 0 : static_cast<std::size_t>(hosts[r]));
      // A rank uses one core at a time: more cores than ranks would only take time to search.
      auto& cores = core_free_[host_of_.back()];
      if (static_cast<double>(cores.size() + 1) <= model.cores) cores.push_back(0);
    }
    out_free_.assign(host_count, 0);
    in_free_.assign(host_count, 0);
    between_free_.assign(host_count, std::vector<double>(host_count, 0));
    std::uint64_t longest = 0;
    std::vector<schedule::ChunkLengths> lengths;
    for (const schedule::Schedule& schedule : schedules)
      lengths.push_back(schedule::chunk_lengths(schedule, part_bytes));
    for (const schedule::MessageGraph::Event& event : graph.events()) {
      const schedule::Step& step = step_of(event.step);
      const schedule::ChunkRange& range = step.kind == schedule::StepKind::send ? step.a : step.dst;
      bytes_.push_back(lengths[event.step.rank].of(range));
      longest = std::max(longest, bytes_.back());
    }
    const double segments = static_cast<double>(longest) / model.segment_bytes;
    const double most =
        std::min(static_cast<double>(limits.pieces),
                 static_cast<double>(limits.total_pieces) / static_cast<double>(graph.events().size() + 1));
    pieces_ = static_cast<std::uint32_t>(std::clamp(segments, 1.0, std::max(most, 1.0)));
  }

  /// Seconds until the last piece of the last event.
  double run() {
    const auto count = static_cast<std::uint32_t>(graph_.events().size());
    followers_.resize(count);
    pending_.resize(std::size_t{count} * pieces_);
    for (std::uint32_t event = 0; event < count; ++event) {
      link_to_what_it_waits_for(event);
      for (std::uint32_t p = 0; p < pieces_; ++p) start_if_ready(event, p);
    }
    double last = 0;
    while (!ready_.empty()) {
      const Task task = ready_.top();
      ready_.pop();
      last = std::max(last, task.phase == Phase::next ? go_on(task) : play(task));
    }
    return last;
  }

 private:
  enum class Phase : std::uint8_t { start, leave, enter, receive, next };
  struct Task {
    double time;          // not before
    std::uint32_t event;  // of Phase::next: the rank
    std::uint32_t piece;
    Phase phase = Phase::start;

    auto operator<=>(const Task&) const = default;
  };
  using Queue = std::priority_queue<Task, std::vector<Task>, std::greater<>>;

  /// An event that waits for this one: on the rank that did or sent this event, or on the rank that received
  /// it.
  struct Follower {
    std::uint32_t event;
    bool as_receiver;    // of the follower: the side that waits
    bool after_sending;  // waits for the sending side; else for the receiving side
  };
  /// A piece of an event: what its two sides still wait for, and the time at which each became ready.
  struct Pending {
    std::array<std::uint32_t, 2> left{};
    std::array<double, 2> ready_at{};
    double arrived = -1;  // time of arrival at a receiver that is not ready
  };

  Pending& pending(std::uint32_t event, std::uint32_t piece) {
    return pending_[std::size_t{event} * pieces_ + piece];
  }
  /// A short message is sent whether or not its receiver is ready; a long one asks first (rendezvous).
  bool asks(std::uint32_t event) const {
    const schedule::MessageGraph::Event& what = graph_.events()[event];
    return static_cast<double>(bytes_[event]) > link_of(what).longest_short;
  }
  const LinkCost& link_of(const schedule::MessageGraph::Event& what) const {
    return host_of_[what.step.rank] == host_of_[what.receiver.rank] ? model_.memory : model_.network;
  }

  void link_to_what_it_waits_for(std::uint32_t event) {
    const schedule::MessageGraph::Event& what = graph_.events()[event];
    const auto waits = graph_.waits_of(event);
    const auto& schedule = schedules_[what.step.rank];
    const std::size_t of_sender = schedule.dependencies_of(schedule.steps[what.step.step]).size();
    for (std::size_t i = 0; i < waits.size(); ++i) {
      const bool as_receiver = i >= of_sender;
      const std::uint32_t rank = as_receiver ? what.receiver.rank : what.step.rank;
      const schedule::MessageGraph::Event& before = graph_.events()[waits[i]];
      followers_[waits[i]].push_back({event, as_receiver, before.is_message && before.step.rank == rank});
    }
    for (std::uint32_t p = 0; p < pieces_; ++p) {
      pending(event, p).left = {static_cast<std::uint32_t>(of_sender),
                                static_cast<std::uint32_t>(waits.size() - of_sender)};
    }
  }

  void start_if_ready(std::uint32_t event, std::uint32_t piece) {
    const Pending& now = pending(event, piece);
    if (now.left[0] > 0 || (asks(event) && now.left[1] > 0)) return;
    ready_.push({asks(event) ? std::max(now.ready_at[0], now.ready_at[1]) : now.ready_at[0], event, piece});
  }

  /// One side of an event is done: its followers no longer wait for it.
  void finish(const Task& task, bool sending, double end) {
    for (const Follower& follower : followers_[task.event]) {
      if (follower.after_sending != sending) continue;
      Pending& later = pending(follower.event, task.piece);
      const std::size_t side = follower.as_receiver ? 1 : 0;
      later.ready_at[side] = std::max(later.ready_at[side], end);
      if (--later.left[side] > 0) continue;
      if (side == 0 || asks(follower.event)) start_if_ready(follower.event, task.piece);
      if (side == 1 && later.arrived >= 0) {
        ready_.push({std::max(later.arrived, end), follower.event, task.piece, Phase::receive});
      }
    }
  }

  const schedule::Step& step_of(const schedule::StepRef& ref) const {
    return schedules_[ref.rank].steps[ref.step];
  }

  /// A core of the rank's host works for `seconds`, when it and the rank are free but not before `earliest`.
  /// Returns the end.
  double work(std::uint32_t rank, double earliest, double seconds) {
    auto& cores = core_free_[host_of_[rank]];
    double& core = *std::min_element(cores.begin(), cores.end());
    const double end = std::max(earliest, core) + seconds;
    core = rank_free_[rank] = end;
    return end;
  }

  double seconds_between(std::size_t from, std::size_t to, double bytes) const {
    return bandwidth_.empty() ? bytes * model_.network.wire_per_byte : bytes / bandwidth_[from][to];
  }

  /// Sends over the sender's link and over the path to the other host, each as soon as it is free. Returns
  /// the time at which the bytes begin to arrive there.
  double leave(std::size_t from, std::size_t to, double begin, double bytes) {
    const double between = seconds_between(from, to, bytes);
    begin = std::max({begin, out_free_[from], between_free_[from][to]});
    out_free_[from] = begin + (bandwidth_.empty() ? between : bytes / links_.out[from]);
    between_free_[from][to] = begin + between;
    return begin;
  }

  /// Receives over the receiver's link, which other messages may occupy first. Returns the time at which all
  /// bytes have arrived: bytes that have passed one link need not wait for the rest.
  double enter(std::size_t from, std::size_t to, double begin, double bytes) {
    const double between = seconds_between(from, to, bytes);
    const double own = bandwidth_.empty() ? between : bytes / links_.in[to];
    in_free_[to] = std::max(begin, in_free_[to]) + own;
    return std::max(begin + between, in_free_[to]);
  }

  /// The rank is busy. As long as any task waits for it, one task in `ready_` stands for its next free
  /// moment.
  void wait_for(std::uint32_t rank, const Task& task) {
    if (waiting_[rank].empty()) ready_.push({rank_free_[rank], rank, 0, Phase::next});
    waiting_[rank].push(task);
  }

  /// The rank does the task that has waited longest.
  double go_on(Task next) {
    const std::uint32_t rank = next.event;
    double end = 0;
    if (rank_free_[rank] <= next.time) {
      Task task = waiting_[rank].top();
      waiting_[rank].pop();
      task.time = next.time;
      end = play(task);
    }
    next.time = std::max(next.time, rank_free_[rank]);
    if (!waiting_[rank].empty()) ready_.push(next);
    return end;
  }

  /// Does the next phase of a piece of an event. A local step has one phase. A message is sent, carried and
  /// received in separate phases, so that no rank is busy for a phase that has not begun. Returns the end of
  /// the phase.
  double play(Task task) {
    const schedule::MessageGraph::Event& event = graph_.events()[task.event];
    const double bytes = static_cast<double>(bytes_[task.event]) / pieces_;
    const schedule::StepRef& actor = task.phase == Phase::start ? event.step : event.receiver;
    const bool is_under_way = task.phase == Phase::leave || task.phase == Phase::enter;
    if (!is_under_way && rank_free_[actor.rank] > task.time) {
      wait_for(actor.rank, task);
      return 0;
    }
    const schedule::StepKind kind = step_of(event.is_message ? event.receiver : event.step).kind;
    const bool reduces = kind == schedule::StepKind::recv_reduce || kind == schedule::StepKind::reduce;
    if (!event.is_message) {
      const double per_byte = reduces ? model_.reduce_per_byte : model_.copy_per_byte;
      const double end = work(event.step.rank, task.time, bytes * per_byte);
      finish(task, false, end);
      return end;
    }
    const std::size_t from = host_of_[event.step.rank];
    const std::size_t to = host_of_[event.receiver.rank];
    const LinkCost& link = link_of(event);
    const double overhead = link.overhead + (asks(task.event) && task.piece == 0 ? link.long_overhead : 0);
    switch (task.phase) {
      case Phase::start:
        task.time = work(event.step.rank, task.time, overhead + bytes * link.sender_per_byte);
        task.phase = from != to ? Phase::leave : Phase::enter;
        if (!asks(task.event)) finish(task, true, task.time);
        ready_.push(task);
        break;
      case Phase::leave:
        task.time = leave(from, to, task.time, bytes);
        task.phase = Phase::enter;
        ready_.push(task);
        break;
      case Phase::enter: {
        if (from != to) task.time = enter(from, to, task.time, bytes);
        task.time += link.latency;
        task.phase = Phase::receive;
        Pending& now = pending(task.event, task.piece);
        now.arrived = task.time;
        if (now.left[1] > 0) break;
        task.time = std::max(task.time, now.ready_at[1]);
        ready_.push(task);
        break;
      }
      case Phase::receive: {
        const double per_byte = link.receiver_per_byte + (reduces ? model_.reduce_per_byte : 0);
        const double wake = rank_free_[event.receiver.rank] < task.time ? model_.wake : 0;
        task.time = work(event.receiver.rank, task.time, wake + overhead + bytes * per_byte);
        finish(task, false, task.time);
        if (asks(task.event)) finish(task, true, task.time);
        break;
      }
      case Phase::next:
        break;
    }
    return task.time;
  }

  std::span<const schedule::Schedule> schedules_;
  const schedule::MessageGraph& graph_;
  const CostModel& model_;
  const BandwidthMatrix& bandwidth_;
  HostLinks links_;
  std::vector<std::size_t> host_of_;
  std::vector<std::uint64_t> bytes_;  // of each event
  std::uint32_t pieces_ = 1;
  std::vector<double> rank_free_;               // time from which each rank's processor is free
  std::vector<std::vector<double>> core_free_;  // time from which the cores of each host are free,
  std::vector<double> out_free_;                // the link of each host, outgoing
  std::vector<double> in_free_;
  std::vector<std::vector<double>> between_free_;  // the path from each host to each other host
  std::vector<std::vector<Follower>> followers_;   // of each event
  std::vector<Pending> pending_;                   // of each piece of each event
  std::vector<Queue> waiting_;                     // for each rank
  Queue ready_;
};

}  // namespace

double predict(std::span<const schedule::Schedule> schedules, std::span<const std::uint64_t> part_bytes,
               std::span<const int> hosts, const CostModel& model, const BandwidthMatrix& bandwidth,
               const PlayLimits& limits) {
  const schedule::MessageGraph graph = schedule::MessageGraph::build(schedules).value();
  return Play(schedules, graph, part_bytes, hosts, model, bandwidth, limits).run();
}

}  // namespace kolo::selection
