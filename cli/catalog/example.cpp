#include "catalog/example.hpp"

#include <algorithm>
#include <vector>

namespace kolo::cli {
namespace {

/// Eight ranks are on hosts of 3, 2 and 3.
std::vector<int> hosts_of(int ranks) {
  const int first = ranks < 6 ? ranks / 2 : ranks * 3 / 8;
  const int second = ranks < 6 ? ranks - first : ranks / 4;
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank < first ? 0 : rank < first + second ? 1 : 2);
  return hosts;
}

/// Whether both have the same messages, in whatever order they leave.
bool have_same_messages(const std::vector<schedule::Schedule>& one,
                        const std::vector<schedule::Schedule>& other) {
  const auto same_step = [](const schedule::Step& a, const schedule::Step& b) {
    return a.kind == b.kind && a.peer == b.peer && a.dst == b.dst && a.a == b.a && a.b == b.b;
  };
  return std::ranges::equal(one, other, [&](const schedule::Schedule& a, const schedule::Schedule& b) {
    return std::ranges::equal(a.steps, b.steps, same_step);
  });
}

}  // namespace

algorithms::ScheduleSpec example_of(const algorithms::Algorithm& algorithm, int ranks) {
  const algorithms::ScheduleSpec plain{algorithm.collective, 0, ranks, 0, {}, {}};
  algorithms::ScheduleSpec hosted = plain;
  hosted.hosts = hosts_of(ranks);
  const bool serves_both =
      algorithms::supports(algorithm, plain).ok() && algorithms::supports(algorithm, hosted).ok();
  if (ranks < 4 || !serves_both) return plain;
  return have_same_messages(algorithms::generate_all(algorithm, plain),
                            algorithms::generate_all(algorithm, hosted))
             ? plain
             : hosted;
}

}  // namespace kolo::cli
