#include "selection/predict.hpp"

#include <algorithm>
#include <compare>
#include <functional>
#include <optional>
#include <queue>

#include "schedule/lengths.hpp"
#include "schedule/message_graph.hpp"

namespace kolo {
namespace {

/// More pieces would not change the picture, only the time it takes.
constexpr std::uint32_t kMostPieces = 8;
constexpr std::uint32_t kMostWork = 20'000;  // pieces of all events

class Play {
 public:
  Play(std::span<const Schedule> schedules, const MessageGraph& graph,
       std::span<const std::uint64_t> part_bytes, std::span<const int> hosts, const CostModel& model)
      : schedules_(schedules), graph_(graph), model_(model), rank_free_(schedules.size(), 0) {
    const std::size_t host_count =
        hosts.empty() ? 1 : static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1;
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      host_of_.push_back(hosts.empty() ? 0 : static_cast<std::size_t>(hosts[r]));
    }
    core_free_.assign(host_count, std::vector<double>(static_cast<std::size_t>(model.cores), 0));
    out_free_.assign(host_count, 0);
    in_free_.assign(host_count, 0);
    std::uint64_t longest = 0;
    std::vector<ChunkLengths> lengths;
    for (const Schedule& schedule : schedules) lengths.push_back(chunk_lengths(schedule, part_bytes));
    for (const MessageGraph::Event& event : graph.events()) {
      const Step& step = step_of(event.step);
      const ChunkRange& range = step.kind == StepKind::send ? step.a : step.dst;
      bytes_.push_back(lengths[event.step.rank].of(range));
      longest = std::max(longest, bytes_.back());
    }
    const double segments = static_cast<double>(longest) / model.segment_bytes;
    const double most =
        std::min(static_cast<double>(kMostPieces),
                 static_cast<double>(kMostWork) / static_cast<double>(graph.events().size() + 1));
    pieces_ = static_cast<std::uint32_t>(std::clamp(segments, 1.0, std::max(most, 1.0)));
  }

  /// Seconds until the last piece of the last event.
  double run() {
    const std::size_t count = graph_.events().size();
    std::vector<std::vector<std::uint32_t>> followers(count);
    std::vector<std::uint32_t> left(count * pieces_);
    ready_at_.assign(count * pieces_, 0);
    for (std::uint32_t event = 0; event < count; ++event) {
      const auto waits = graph_.waits_of(event);
      for (const std::uint32_t before : waits) followers[before].push_back(event);
      for (std::uint32_t p = 0; p < pieces_; ++p) {
        left[event * pieces_ + p] = static_cast<std::uint32_t>(waits.size());
        if (waits.empty()) ready_.push({0, event, p});
      }
    }
    double last = 0;
    while (!ready_.empty()) {
      const Task task = ready_.top();
      ready_.pop();
      const auto end = play(task);
      if (!end) continue;
      last = std::max(last, *end);
      for (const std::uint32_t follower : followers[task.event]) {
        const std::size_t index = std::size_t{follower} * pieces_ + task.piece;
        ready_at_[index] = std::max(ready_at_[index], *end);
        if (--left[index] == 0) ready_.push({ready_at_[index], follower, task.piece});
      }
    }
    return last;
  }

 private:
  enum class Phase : std::uint8_t { start, carry, receive };
  struct Task {
    double time;  // not before
    std::uint32_t event;
    std::uint32_t piece;
    Phase phase = Phase::start;

    auto operator<=>(const Task&) const = default;
  };

  const Step& step_of(const StepRef& ref) const { return schedules_[ref.rank].steps[ref.step]; }

  /// The rank's processor and a core of its host work for `seconds`, not before `earliest`; returns the end.
  double work(std::uint32_t rank, double earliest, double seconds) {
    auto& cores = core_free_[host_of_[rank]];
    double& core = *std::min_element(cores.begin(), cores.end());
    const double end = std::max({earliest, rank_free_[rank], core}) + seconds;
    core = rank_free_[rank] = end;
    return end;
  }

  /// Does what is due of a piece of an event: a local step is one thing; a message is sent, carried and
  /// received, each in its own turn, so that nobody is kept busy by what is still to come. Returns the end of
  /// the last.
  std::optional<double> play(Task task) {
    const MessageGraph::Event& event = graph_.events()[task.event];
    const double bytes = static_cast<double>(bytes_[task.event]) / pieces_;
    const StepKind kind = step_of(event.is_message ? event.receiver : event.step).kind;
    const bool reduces = kind == StepKind::recv_reduce || kind == StepKind::reduce;
    if (!event.is_message) {
      return work(event.step.rank, task.time,
                  bytes * (reduces ? model_.reduce_per_byte : model_.copy_per_byte));
    }
    const std::size_t from = host_of_[event.step.rank];
    const std::size_t to = host_of_[event.receiver.rank];
    const LinkCost& link = from == to ? model_.memory : model_.network;
    const double overhead = link.overhead + (bytes > kShortMessage ? link.long_overhead : 0);
    switch (task.phase) {
      case Phase::start:
        task.time = work(event.step.rank, task.time, overhead + bytes * link.sender_per_byte);
        task.phase = Phase::carry;
        break;
      case Phase::carry:
        if (from != to) {
          const double begin = std::max({task.time, out_free_[from], in_free_[to]});
          task.time = out_free_[from] = in_free_[to] = begin + bytes * link.wire_per_byte;
        }
        task.time += link.latency;
        task.phase = Phase::receive;
        break;
      case Phase::receive: {
        const double per_byte = link.receiver_per_byte + (reduces ? model_.reduce_per_byte : 0);
        return work(event.receiver.rank, task.time, overhead + bytes * per_byte);
      }
    }
    ready_.push(task);
    return std::nullopt;
  }

  std::span<const Schedule> schedules_;
  const MessageGraph& graph_;
  const CostModel& model_;
  std::vector<std::size_t> host_of_;
  std::vector<std::uint64_t> bytes_;  // of each event
  std::uint32_t pieces_ = 1;
  std::vector<double> rank_free_;               // since when each rank's processor has nothing to do
  std::vector<std::vector<double>> core_free_;  // likewise the cores of each host,
  std::vector<double> out_free_;                // and its link, both ways
  std::vector<double> in_free_;
  std::vector<double> ready_at_;
  std::priority_queue<Task, std::vector<Task>, std::greater<>> ready_;
};

}  // namespace

double predict(std::span<const Schedule> schedules, std::span<const std::uint64_t> part_bytes,
               std::span<const int> hosts, const CostModel& model) {
  const MessageGraph graph = MessageGraph::build(schedules).value();
  return Play(schedules, graph, part_bytes, hosts, model).run();
}

}  // namespace kolo
