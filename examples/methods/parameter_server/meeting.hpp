// Where a server and a worker meet: a communicator of two, from a prefix of the store that belongs to the
// server's generation.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/store.hpp"

namespace kolo::methods {

inline constexpr int kServerSide = 0;
inline constexpr int kWorkerSide = 1;

/// A server that has started, for the n-th time: returns n, from 1.
std::uint64_t begin_generation(Store& store, int server);
/// Of the server that started last; 0: none has.
std::uint64_t generation_of(Store& store, int server);

struct Pair {
  int server;
  std::uint64_t generation;
  int worker;
};
/// The worker says that it wants to meet the server, and the server that it is about to: none waits in vain
/// for one that has died.
void announce(Store& store, const Pair& pair);
void welcome(Store& store, const Pair& pair);
/// Whether the server has said so; waits for it.
bool is_welcome(Store& store, const Pair& pair, std::chrono::nanoseconds timeout);
/// Those of the workers that want to; waits until there is one, or until the time is over.
std::vector<int> announced(Store& store, int server, std::uint64_t generation,
                           const std::vector<int>& workers, std::chrono::nanoseconds timeout);
/// Both sides call it. Throws as Communicator::create().
Communicator meet(const std::shared_ptr<Store>& store, const Pair& pair, int side, const Options& options);

}  // namespace kolo::methods
