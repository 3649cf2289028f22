// Two Links at the ends of a pipe, for tests.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "fuzz/link_pipe.hpp"

namespace kolo::test {

struct Pair {
  Pair(bool pulls, unsigned seed, std::size_t most_at_once, std::size_t room = std::size_t{1} << 30,
       std::uint64_t turn = std::uint64_t{1} << 30)
      : state(std::make_shared<PipeState>()) {
    state->turn = turn;
    state->pulls = pulls;
    state->shares_caches = seed % 2 == 0;
    state->random.seed(seed);
    state->most_at_once = most_at_once;
    state->room = room;
    for (int end : {0, 1}) {
      links[end] = std::make_unique<transport::Link>(1 - end, std::make_unique<PipeEnd>(state, end),
                                                     heard[end], memory[end]);
    }
  }
  void run(int rounds = 100'000) {
    for (int quiet = 0; rounds > 0 && quiet < 3; --rounds) {
      bool moved = false;
      for (auto& link : links) {
        const auto result = link->progress(true);
        moved = moved || (result.ok() && *result);
      }
      quiet = moved ? 0 : quiet + 1;
    }
  }
  /// The peer's side as raw frames.
  void say(const transport::FrameHeader& header, const std::vector<std::byte>& payload = {}) {
    const auto* raw = reinterpret_cast<const std::byte*>(&header);
    state->bytes[1].insert(state->bytes[1].end(), raw, raw + sizeof header);
    state->bytes[1].insert(state->bytes[1].end(), payload.begin(), payload.end());
  }

  std::shared_ptr<PipeState> state;
  Heard heard[2];
  MemoryPool memory[2];
  std::unique_ptr<transport::Link> links[2];
};

inline transport::FrameHeader frame(transport::FrameType type, const Message& message) {
  transport::FrameHeader header;
  header.type = type;
  header.tag = message.tag;
  header.bytes = message.bytes;
  header.signature = message.call;
  return header;
}

/// Which of `messages`, sent in this order, have credit if no receive is posted.
template <typename Messages>
std::vector<bool> with_credit(const Messages& messages) {
  std::uint64_t left = transport::Credit::kBytes;
  std::vector<bool> have;
  for (const auto& message : messages) {
    const std::uint64_t cost = transport::Credit::cost_of(message->bytes);
    have.push_back(cost <= left);
    if (have.back()) left -= cost;
  }
  return have;
}

inline void fill(Message& message, unsigned seed) {
  std::mt19937 random(seed);
  for (std::byte& byte : message.memory) byte = static_cast<std::byte>(random());
  message.data = message.memory.data();
}

}  // namespace kolo::test
