#include "peer.hpp"

#include <fmt/format.h>

#include <algorithm>
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

int peer_main(int argc, char** argv, std::size_t least, const char* name,
              const std::function<int(std::span<char* const> arguments)>& run) {
  const auto arguments = std::span(argv, static_cast<std::size_t>(argc)).subspan(1);
  if (arguments.size() < least) {
    fmt::print(stderr, "kolo bench --against and scripts/compare-network start this program\n");
    return 2;
  }
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

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
