#include "comm/links.hpp"

#include <algorithm>
#include <array>

#include "base/deadline.hpp"

namespace kolo::comm {
namespace {

constexpr std::size_t kFirstBytes = 8;
constexpr std::size_t kRestBytes = 256 << 10;

/// Bytes a second from the member `distance` places before this one (after it, if negative), while all
/// members do the same. The time runs from a short message to the long one behind it, so a late sender does
/// not look like a slow link. The median of some rounds; 0 if this rank is not a member.
double arrival_rate(Communicator& communicator, const std::vector<int>& members, int distance, int rounds) {
  const auto me = std::find(members.begin(), members.end(), communicator.rank());
  if (me == members.end()) return 0;
  const auto count = static_cast<std::ptrdiff_t>(members.size());
  const auto at = [&](std::ptrdiff_t places) {
    return members[static_cast<std::size_t>((me - members.begin() + count + places) % count)];
  };
  std::array<std::byte, kFirstBytes> out_first{}, in_first{};
  std::vector<std::byte> out(kRestBytes), in(kRestBytes);
  std::vector<double> rates;
  for (int round = 0; round < rounds; ++round) {
    const Work first =
        communicator.recv_async({in_first.data(), in_first.size(), DType::uint8}, at(-distance));
    const Work rest = communicator.recv_async({in.data(), in.size(), DType::uint8}, at(-distance));
    const Work sent_first =
        communicator.send_async({out_first.data(), out_first.size(), DType::uint8}, at(distance));
    const Work sent = communicator.send_async({out.data(), out.size(), DType::uint8}, at(distance));
    first.wait();
    const auto begin = Clock::now();
    rest.wait();
    rates.push_back(static_cast<double>(kRestBytes) / to_seconds(Clock::now() - begin));
    sent_first.wait();
    sent.wait();
  }
  const auto median = rates.begin() + rounds / 2;
  std::nth_element(rates.begin(), median, rates.end());
  return *median;
}

}  // namespace

std::vector<int> leaders_of(const Communicator& communicator, const std::vector<int>& hosts) {
  std::vector<int> leaders;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const int host = hosts.empty() ? 0 : hosts[static_cast<std::size_t>(rank)];
    if (host == static_cast<int>(leaders.size())) leaders.push_back(rank);
  }
  return leaders;
}

selection::BandwidthMatrix measure_links(Communicator& communicator, const std::vector<int>& rank_hosts) {
  constexpr double kUnequal = 3;
  constexpr double kFast = 300e6;  // bytes a second
  const std::vector<int> leaders = leaders_of(communicator, rank_hosts);
  const std::size_t hosts = leaders.size();
  if (hosts < 3) return {};
  // What arrives at each host from the one before it, or from the one after it: the most that was seen.
  std::vector<double> from_before(hosts, 0);
  std::vector<double> from_after(hosts, 0);
  const auto measure = [&](std::vector<double>& rates, int distance, int rounds) {
    std::vector<double> seen(hosts, 0);
    const auto me = std::find(leaders.begin(), leaders.end(), communicator.rank());
    const double rate = arrival_rate(communicator, leaders, distance, rounds);
    if (me != leaders.end()) seen[static_cast<std::size_t>(me - leaders.begin())] = rate;
    communicator.all_reduce(Buffer(seen), ReduceOp::max);
    for (std::size_t i = 0; i < hosts; ++i) rates[i] = std::max(rates[i], std::min(seen[i], kFast));
  };
  const auto are_alike = [](const std::vector<double>& rates) {
    const auto [least, most] = std::ranges::minmax(rates);
    return most < kUnequal * least;
  };
  // A host whose cores are busy for a moment looks like a host with a slow link. So slow links are measured
  // again, with few rounds, because slow links take long.
  for (const int rounds : {3, 1, 1}) {
    measure(from_before, 1, rounds);
    if (are_alike(from_before)) return {};
    measure(from_after, -1, rounds);
    if (are_alike(from_after)) return {};
  }
  selection::BandwidthMatrix bandwidth(hosts, std::vector<double>(hosts, 0));
  for (std::size_t from = 0; from < hosts; ++from) {
    const double out = std::max(from_before[(from + 1) % hosts], from_after[(from + hosts - 1) % hosts]);
    for (std::size_t to = 0; to < hosts; ++to) {
      bandwidth[from][to] = std::min(out, std::max(from_before[to], from_after[to]));
    }
  }
  return selection::slow_hosts(bandwidth).empty() ? selection::BandwidthMatrix{} : bandwidth;
}

}  // namespace kolo::comm
