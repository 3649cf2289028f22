// What the ranks of a new communicator find out about themselves: where they are, and what messages cost.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <mutex>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/arithmetic.hpp"
#include "base/config.hpp"
#include "base/deadline.hpp"
#include "base/log.hpp"
#include "comm/links.hpp"
#include "comm/state.hpp"
#include "kernels/kernels.hpp"
#include "transport/transport.hpp"

namespace kolo::comm {
namespace {

/// Sizes of the messages exchanged: short, just above short, and so large that the bytes count.
constexpr std::uint64_t kShort = 8;
constexpr std::uint64_t kMiddle = 16 << 10;
constexpr std::uint64_t kLong = 256 << 10;
/// The most ranks of a host that exchange them. The costs of more ranks a core follow from their turns; 128
/// ranks of two cores would spend a fifth of their start on exchanges.
constexpr std::size_t kMeasuredPerCore = 8;

/// How long a round of exchanges takes, in seconds; 0 if there was no rank to exchange with.
struct Rounds {
  double of_short = 0;
  double of_middle = 0;
  double of_long = 0;
  double of_two = 0;  ///< with a second short message in the other direction; 0 if both are the same

  double per_byte() const {
    return std::max(of_long - of_middle, 1e-12) / static_cast<double>(kLong - kMiddle);
  }
  /// The cost that a long message has besides its bytes: the rendezvous.
  double agreeing() const {
    return std::max(of_middle - of_short - per_byte() * static_cast<double>(kMiddle), 0.0);
  }
};

double seconds_since(Clock::time_point begin) {
  return to_seconds(Clock::now() - begin);
}

/// The least time of a few tries: disturbances only add time.
double least_time(int tries, const std::function<void()>& call) {
  double least = 0;
  for (int i = 0; i < tries; ++i) {
    const auto begin = Clock::now();
    call();
    const double seconds = seconds_since(begin);
    if (i == 0 || seconds < least) least = seconds;
  }
  return least;
}

/// All `members` send to the next member and receive from the one before, all at once, round after round;
/// with `both_ways` also in the other direction. Returns the mean time of a round in the fastest of a few
/// batches: a short message may be there already in one round, and is waited for longer in another. A rank
/// that is not a member returns 0 at once.
double time_exchange(Communicator& communicator, const std::vector<int>& members, std::uint64_t bytes,
                     int rounds, bool both_ways = false) {
  constexpr int kBatches = 3;
  const auto me = std::find(members.begin(), members.end(), communicator.rank());
  if (me == members.end() || members.size() < 2) return 0;
  const auto count = static_cast<std::ptrdiff_t>(members.size());
  const auto place = me - members.begin();
  const int next = members[static_cast<std::size_t>((place + 1) % count)];
  const int before = members[static_cast<std::size_t>((place + count - 1) % count)];
  std::vector<std::byte> out(bytes), in(bytes), in_back(bytes);
  const auto exchange = [&] {
    std::vector<Work> works{communicator.send_async({out.data(), bytes, DType::uint8}, next)};
    if (both_ways) {
      works.push_back(communicator.send_async({out.data(), bytes, DType::uint8}, before));
      works.push_back(communicator.recv_async({in_back.data(), bytes, DType::uint8}, next));
    }
    communicator.recv({in.data(), bytes, DType::uint8}, before);
    for (const Work& work : works) work.wait();
  };
  for (int warm_up = 0; warm_up < rounds / 4; ++warm_up) exchange();
  const int in_batch = rounds / kBatches;
  return least_time(kBatches,
                    [&] {
                      for (int round = 0; round < in_batch; ++round) exchange();
                    }) /
         in_batch;
}

/// A short message goes round all members, and each waits for it. The first member gets the time of a hop,
/// the lower quartile of the laps; all other ranks get 0.
double time_relay(Communicator& communicator, const std::vector<int>& members, int most_laps) {
  constexpr int kHops = 192;  // enough, so many members need few laps
  const auto me = std::find(members.begin(), members.end(), communicator.rank());
  if (me == members.end() || members.size() < 2) return 0;
  const int laps = std::clamp(kHops / static_cast<int>(members.size()), 3, most_laps);
  const int next = me + 1 == members.end() ? members.front() : *(me + 1);
  const int before = me == members.begin() ? members.back() : *(me - 1);
  std::array<std::byte, kShort> message{};
  const auto send = [&] { communicator.send(ConstBuffer(message.data(), kShort, DType::uint8), next); };
  const auto receive = [&] { communicator.recv(Buffer(message.data(), kShort, DType::uint8), before); };
  std::vector<double> times;
  for (int lap = 0; lap < laps; ++lap) {
    const auto begin = Clock::now();
    if (me == members.begin()) send();
    receive();
    if (me != members.begin()) send();
    times.push_back(seconds_since(begin) / static_cast<double>(members.size()));
  }
  std::nth_element(times.begin(), times.begin() + laps / 4, times.end());
  return me == members.begin() ? times[static_cast<std::size_t>(laps / 4)] : 0;
}

/// Fits the costs inside a host. A hop is three equal parts (this fits the times of short calls best): work
/// of the sender, work of the receiver, latency. If ranks share cores, the third part is the change from one
/// rank to another, and costs per byte are divided by the ranks per core.
void explain_memory(selection::CostModel& model, const Rounds& rounds, double hop, int ranks) {
  const double turns = std::max(1.0, ranks / model.cores);
  selection::LinkCost& cost = model.memory;
  cost = {};
  cost.overhead = hop / 3;
  (turns > 1 ? model.wake : cost.latency) = hop / 3;
  // At most the overhead of a message each way: an algorithm has mostly posted the receive before, and this
  // exchange has not.
  cost.long_overhead = std::min(rounds.agreeing() / (2 * turns), 2 * cost.overhead);
  cost.receiver_per_byte = rounds.per_byte() / turns;
}

/// Fits the costs between hosts. What a second message adds to a round is the work of both processors on it,
/// at most two thirds of a hop; the rest of a hop is latency. If a hop takes longer while all hosts exchange,
/// the difference is work too: hosts that share processors, as emulated ones do, or a switch, do it one after
/// another.
selection::LinkCost explain_network(const Rounds& rounds, double hop) {
  selection::LinkCost cost{.longest_short = selection::kNeverAsks};
  const double added = rounds.of_two == 0 ? 0 : rounds.of_two - rounds.of_short;
  const double shared = std::max(rounds.of_short - hop, 0.0);
  cost.overhead = std::clamp(added / 2, hop / 6, hop / 3);
  cost.latency = hop - 2 * cost.overhead;
  cost.overhead += shared / 2;
  cost.wire_per_byte = rounds.per_byte();
  return cost;
}

/// Measures with buffers beyond the caches, as long data is. Inside the caches all costs look low.
void measure_local(selection::CostModel& model) {
  constexpr std::uint64_t kBeyondCaches = 4 << 20;
  std::vector<float> a(kBeyondCaches / sizeof(float), 1.0f), b(a), out(a);
  const auto add = kernels::reduce_function(DType::float32, ReduceOp::sum);
  const auto bytes = static_cast<double>(kBeyondCaches);
  const auto* left = reinterpret_cast<const std::byte*>(a.data());
  const auto* right = reinterpret_cast<const std::byte*>(b.data());
  auto* to = reinterpret_cast<std::byte*>(out.data());
  model.reduce_per_byte = least_time(2, [&] { add(to, left, right, a.size()); }) / bytes;
  model.copy_per_byte = least_time(2, [&] { kernels::copy(to, left, kBeyondCaches); }) / bytes;
}

/// `used`: whether each transport of transport_factories() is.
selection::LinkKinds kinds_of(std::span<const std::uint8_t> used) {
  const auto known = transport::transport_factories();
  selection::LinkKinds kinds;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (used[i] == 0) continue;
    const bool is_first = kinds.names.empty();
    kinds.names += (is_first ? "" : "+") + std::string(known[i].name);
    kinds.share_memory = known[i].shares_memory && (is_first || kinds.share_memory);
    kinds.never_ask = !known[i].pulls && (is_first || kinds.never_ask);
  }
  return kinds;
}

/// The kinds of links that any rank has to ranks of its own host and to other hosts, and whether ranks share
/// cores. Collective.
void find_links(Communicator& communicator, const Wireup& wireup, selection::Topology& topology) {
  const std::vector<int>& hosts = wireup.hosts;
  const auto known = transport::transport_factories();
  std::vector<std::uint8_t> found(2 * known.size() + 1, 0);
  const auto host_of = [&](int rank) { return hosts.empty() ? 0 : hosts[static_cast<std::size_t>(rank)]; };
  for (int peer = 0; peer < communicator.size(); ++peer) {
    const bool inside = host_of(peer) == host_of(communicator.rank());
    const auto kind =
        std::ranges::find(known, communicator.transport_to(peer), &transport::TransportFactory::name);
    if (kind != known.end())
      found[static_cast<std::size_t>(kind - known.begin()) + (inside ? 0 : known.size())] = 1;
  }
  found.back() = wireup.engine->options().ranks_a_core > 1 ? 1 : 0;
  communicator.all_reduce(Buffer(found), ReduceOp::max);
  topology.links_inside = kinds_of({found.data(), known.size()});
  topology.links_between = kinds_of({found.data() + known.size(), known.size()}).names;
  topology.oversubscribed = found.back() != 0;
}

/// What groups of this process have measured inside this host: the next group does not measure it again.
struct Measured {
  std::mutex mutex;
  selection::TuningTable table;
};
Measured& measured() {
  static auto* const instance = new Measured;
  return *instance;
}

/// Rank 0's table, with what its process has measured in this setting, on all ranks. Collective. A file that
/// cannot be read counts as no table, with a warning.
selection::TuningTable shared_table(Communicator& communicator, const selection::Setting& setting) {
  std::string text;
  if (communicator.rank() == 0) {
    selection::TuningTable table;
    if (!selection::table_path().empty()) {
      auto read = selection::read_table(selection::table_path());
      if (!read.ok()) log().warn("the tuning table is left out: {}", read.status().message());
      if (read.ok()) table = std::move(read).value();
    }
    const std::lock_guard lock(measured().mutex);
    const auto model = measured().table.model(setting);
    if (model && !table.model(setting)) table.set_model(setting, *model);
    if (!table.empty()) text = table.text();
  }
  std::uint64_t length = text.size();
  communicator.broadcast(Buffer(&length, 1, DType::uint64), 0);
  if (length == 0) return {};
  text.resize(length);
  communicator.broadcast(Buffer(text.data(), length, DType::uint8), 0);
  return selection::TuningTable::parse(text).value_or_throw();
}

/// Rank 0's order, on all ranks: the search may take long, and its numbers might differ on another machine.
/// Collective.
std::vector<int> shared_ring(Communicator& communicator, const selection::Topology& topology) {
  std::vector<int> ring;
  if (communicator.rank() == 0) ring = selection::ring_by_bandwidth(topology);
  std::uint64_t length = ring.size();
  communicator.broadcast(Buffer(&length, 1, DType::uint64), 0);
  ring.resize(length);
  if (length > 0) communicator.broadcast(Buffer(ring.data(), length, DType::int32), 0);
  return ring;
}

// The largest value of any rank decides, so that all ranks have the same model.
selection::CostModel measure_costs(Communicator& communicator, const std::vector<int>& hosts, int cores) {
  selection::CostModel model = selection::typical_cost_model();
  const std::vector<int> leaders = leaders_of(communicator, hosts);
  std::vector<int> local_peers;
  const auto host_of = [&](int rank) { return hosts.empty() ? 0 : hosts[static_cast<std::size_t>(rank)]; };
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (host_of(rank) == host_of(communicator.rank())) local_peers.push_back(rank);
  }
  const auto most = kMeasuredPerCore * static_cast<std::size_t>(std::max(cores, 1));
  local_peers.resize(std::min(local_peers.size(), most));
  // If ranks share cores, more of them would only measure how they wait for each other.
  model.reduce_per_byte = model.copy_per_byte = 0;
  if (std::ranges::find(local_peers, communicator.rank()) - local_peers.begin() < cores) measure_local(model);
  const auto time_rounds = [&](const std::vector<int>& members) {
    return Rounds{time_exchange(communicator, members, kShort, 24),
                  time_exchange(communicator, members, kMiddle, 12),
                  time_exchange(communicator, members, kLong, 8)};
  };
  const Rounds inside = time_rounds(local_peers);
  const double hop = time_relay(communicator, local_peers, 24);
  communicator.barrier();
  Rounds between = time_rounds(leaders);
  if (leaders.size() > 2) between.of_two = time_exchange(communicator, leaders, kShort, 24, true);
  const double hop_between = time_relay(communicator, leaders, 12);
  std::vector<double> largest = {inside.of_short,
                                 inside.of_middle,
                                 inside.of_long,
                                 between.of_short,
                                 between.of_middle,
                                 between.of_long,
                                 between.of_two,
                                 static_cast<double>(local_peers.size()),
                                 model.reduce_per_byte,
                                 model.copy_per_byte,
                                 hop,
                                 hop_between};
  communicator.all_reduce(Buffer(largest), ReduceOp::max);
  model.cores = cores;
  model.reduce_per_byte = std::max(largest[8], 1e-12);
  model.copy_per_byte = std::max(largest[9], 1e-12);
  if (largest[0] > 0) {
    explain_memory(model, {largest[0], largest[1], largest[2]}, largest[10], static_cast<int>(largest[7]));
  }
  if (largest[3] > 0)
    model.network = explain_network({largest[3], largest[4], largest[5], largest[6]}, largest[11]);
  model.segment_bytes = static_cast<double>(config().segment_bytes);
  return model;
}

}  // namespace

}  // namespace kolo::comm

namespace kolo {

selection::CostModel measure_costs(Communicator& communicator) {
  const selection::Topology& topology = situation_of(communicator);
  return comm::measure_costs(communicator, topology.hosts, topology.cores);
}

}  // namespace kolo

namespace kolo::comm {

selection::Topology explore(Communicator& communicator, const Wireup& wireup, bool measures) {
  const DefaultArithmetic arithmetic;
  selection::Topology topology;
  topology.size = communicator.size();
  topology.hosts = wireup.hosts;
  topology.host_names = wireup.host_names;
  topology.cores = wireup.cores;
  find_links(communicator, wireup, topology);
  topology.table = shared_table(communicator, topology.setting());
  topology.bandwidth = selection::bandwidths_between(topology.host_names, topology.table);
  topology.ring = shared_ring(communicator, topology);
  const selection::Setting setting = topology.setting();
  const auto known = topology.table.model(setting);
  if (!known && measures) {
    topology.set_model(measure_costs(communicator, wireup.hosts, wireup.cores));
    const std::lock_guard lock(measured().mutex);
    if (wireup.hosts.empty()) measured().table.set_model(setting, topology.model);
  } else {
    topology.set_model(known ? *known : selection::typical_cost_model());
  }
  if (!known && measures && topology.bandwidth.empty())
    topology.bandwidth = measure_links(communicator, wireup.hosts);
  if (communicator.rank() == 0) {
    log().debug("links {}, ranks {}, costs {}", setting.links, setting.layout,
                selection::to_text(topology.model));
    if (!topology.ring.empty()) log().debug("rings run in the order {}", fmt::join(topology.ring, " "));
  }
  return topology;
}

}  // namespace kolo::comm
