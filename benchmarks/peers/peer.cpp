#include "peer.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "bench/wire.hpp"

namespace kolo::bench {
namespace {

std::vector<Sample> obey(Contestant& contestant, const Order& order) {
  std::vector<Sample> samples;
  std::uint64_t iteration = order.first_iteration;
  for (const std::string& algorithm : contestant.algorithms(order.what)) {
    const auto& wanted = order.algorithms;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), algorithm) == wanted.end()) continue;
    samples.push_back(measure(contestant, order.what, algorithm, order.policy, iteration));
  }
  return samples;
}

}  // namespace

int serve(Contestant& contestant, const std::string& socket, const std::string& library) {
  try {
    Line line = Line::connect(socket);
    line.write({{"rank", contestant.rank()}, {"library", library}});
    while (const auto order = line.read(std::chrono::milliseconds(-1))) {
      const auto samples = obey(contestant, order_from_json(*order));
      if (contestant.rank() == 0) line.write(to_json(samples));
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", library, error.what());
    return 1;
  }
}

}  // namespace kolo::bench
