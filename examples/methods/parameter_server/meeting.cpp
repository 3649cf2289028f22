#include "methods/parameter_server/meeting.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace kolo::methods {
namespace {

std::string server_key(int server) {
  return "server/" + std::to_string(server);
}

std::string generation_key(int server) {
  return server_key(server) + "/generation";
}

std::string pair_key(const Pair& pair) {
  return generation_key(pair.server) + "/" + std::to_string(pair.generation) + "/worker/" +
         std::to_string(pair.worker);
}

std::string welcome_key(const Pair& pair) {
  return pair_key(pair) + "/welcome";
}

}  // namespace

std::uint64_t begin_generation(Store& store, int server) {
  return static_cast<std::uint64_t>(store.add(generation_key(server), 1));
}

std::uint64_t generation_of(Store& store, int server) {
  return static_cast<std::uint64_t>(store.add(generation_key(server), 0));
}

void announce(Store& store, const Pair& pair) {
  store.set(pair_key(pair), "here");
}

void welcome(Store& store, const Pair& pair) {
  store.set(welcome_key(pair), "here");
}

bool is_welcome(Store& store, const Pair& pair, std::chrono::nanoseconds timeout) {
  return store.wait({welcome_key(pair)}, timeout).empty();
}

std::vector<int> announced(Store& store, int server, std::uint64_t generation,
                           const std::vector<int>& workers, std::chrono::nanoseconds timeout) {
  constexpr std::chrono::milliseconds kInterval{20};
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    std::vector<std::string> keys;
    for (const int worker : workers) keys.push_back(pair_key({server, generation, worker}));
    // The store waits for all of them: it is asked for those that are there, again and again.
    const auto missing = store.wait(keys, kInterval);
    std::vector<int> here;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (std::ranges::find(missing, keys[i]) == missing.end()) here.push_back(workers[i]);
    }
    if (!here.empty() || std::chrono::steady_clock::now() >= end) return here;
  }
}

Communicator meet(const std::shared_ptr<Store>& store, const Pair& pair, int side, const Options& options) {
  return Communicator::create(make_prefix_store(pair_key(pair) + "/", store), side, 2, options);
}

}  // namespace kolo::methods
