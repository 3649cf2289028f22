#include "selection/bandwidth.hpp"

#include <algorithm>

namespace kolo::selection {

BandwidthMatrix bandwidths_between(const std::vector<std::string>& hosts, const TuningTable& table) {
  if (hosts.size() < 2) return {};
  BandwidthMatrix matrix(hosts.size(), std::vector<double>(hosts.size(), 0));
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (std::size_t j = 0; j < hosts.size(); ++j) {
      if (i == j) continue;
      const auto known = table.bandwidth(hosts[i], hosts[j]);
      if (!known) return {};
      matrix[i][j] = *known;
    }
  }
  return matrix;
}

HostLinks::HostLinks(const BandwidthMatrix& bandwidth) : out(bandwidth.size(), 0), in(bandwidth.size(), 0) {
  for (std::size_t i = 0; i < bandwidth.size(); ++i) {
    for (std::size_t j = 0; j < bandwidth.size(); ++j) {
      if (i == j) continue;
      out[i] = std::max(out[i], bandwidth[i][j]);
      in[j] = std::max(in[j], bandwidth[i][j]);
    }
  }
}

std::vector<int> slow_hosts(const BandwidthMatrix& bandwidth) {
  constexpr double kApart = 1.25;
  const HostLinks links(bandwidth);
  const auto speed = [&](std::size_t host) { return std::min(links.out[host], links.in[host]); };
  std::vector<double> speeds;
  for (std::size_t host = 0; host < bandwidth.size(); ++host) speeds.push_back(speed(host));
  std::ranges::sort(speeds);
  double slowest_fast = 0;
  double widest = kApart;
  for (std::size_t i = 1; i < speeds.size(); ++i) {
    if (speeds[i] < widest * speeds[i - 1]) continue;
    widest = speeds[i] / speeds[i - 1];
    slowest_fast = speeds[i];
  }
  std::vector<int> slow;
  for (std::size_t host = 0; host < bandwidth.size(); ++host) {
    if (speed(host) < slowest_fast) slow.push_back(static_cast<int>(host));
  }
  return slow;
}

}  // namespace kolo::selection
