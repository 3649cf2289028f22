#include "catalog/example.hpp"

#include <string>

#include "schedule/printer.hpp"

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

std::string all_steps(const algorithms::Algorithm& algorithm, const algorithms::ScheduleSpec& spec) {
  std::string text;
  for (const schedule::Schedule& schedule : algorithms::generate_all(algorithm, spec)) {
    text += schedule::to_string(schedule);
  }
  return text;
}

}  // namespace

algorithms::ScheduleSpec example_of(const algorithms::Algorithm& algorithm, int ranks) {
  const algorithms::ScheduleSpec plain{algorithm.collective, 0, ranks, 0, {}, {}};
  algorithms::ScheduleSpec hosted = plain;
  hosted.hosts = hosts_of(ranks);
  const bool serves_both =
      algorithms::supports(algorithm, plain).ok() && algorithms::supports(algorithm, hosted).ok();
  if (ranks < 4 || !serves_both) return plain;
  return all_steps(algorithm, plain) == all_steps(algorithm, hosted) ? plain : hosted;
}

}  // namespace kolo::cli
