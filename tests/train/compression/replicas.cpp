#include "train/compression/replicas.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace kolo::test {
namespace {

/// Bits are compared between runs, and kolo chooses by what it measures: another algorithm adds in another
/// order. The environment is read by the first communicator.
[[maybe_unused]] const int kAlgorithmIsSet = ::setenv("KOLO_ALGORITHM", "ring", 1);

std::vector<std::vector<std::size_t>> three_buckets() {
  std::vector<std::vector<std::size_t>> buckets(3);
  for (std::size_t p = 0; p < parameters().size(); ++p) buckets[p % 3].push_back(p);
  return buckets;
}

}  // namespace

std::vector<std::string> tested_hooks() {
  return {"float16",
          "bfloat16",
          "int8",
          "int8:feedback=1",
          "float8",
          "float8:feedback=1",
          "one_bit",
          "one_bit:start_after_steps=1",
          "top_k:ratio=0.05:momentum=0",
          "top_k:ratio=0.02:momentum=0.9:warm_up_steps=3",
          "power_sgd:rank=1",
          "power_sgd:rank=2:warm_start=0",
          "power_sgd:rank=3:start_after_steps=1",
          "adasum",
          "post_local_sgd:start_after_steps=1000:ranks_per_group=2"};
}

std::vector<GradientPart> parameters() {
  std::vector<GradientPart> parts;
  const std::vector<std::vector<std::int64_t>> shapes = {
      {}, {0}, {3}, {255}, {256}, {257}, {40, 25}, {17, 241}, {8, 4, 3, 3}, {64, 50}, {1000}, {2, 3}};
  for (const auto& shape : shapes) {
    std::uint64_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::uint64_t>(size);
    parts.push_back({"p" + std::to_string(parts.size()), shape, 0, count});
  }
  return parts;
}

float gradient(int rank, int step, std::size_t parameter, std::size_t element) {
  std::uint64_t x = static_cast<std::uint64_t>(rank) * 0x9E3779B97F4A7C15u +
                    static_cast<std::uint64_t>(step) * 0xBF58476D1CE4E5B9u + parameter * 0x94D049BB133111EBu +
                    element + 1;
  for (int round = 0; round < 3; ++round) {
    x ^= x >> 31;
    x *= 0xD6E8FEB86659FD93u;
  }
  return static_cast<float>(static_cast<std::int32_t>(x >> 32)) * 0x1p-31f;
}

std::vector<Outputs> run(const Script& what) {
  std::vector<Outputs> all(static_cast<std::size_t>(what.ranks));
  expect_ranks({.size = what.ranks, .transport = what.transport}, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    Outputs& outputs = all[static_cast<std::size_t>(rank)];
    std::shared_ptr<GradientHook> hook = make_gradient_hook(what.hook);
    const auto known = parameters();
    hook->check(known);
    for (int step = 0; step < what.steps; ++step) {
      if (what.replace) hook = what.replace(step, hook);
      auto& averages = outputs.averages.emplace_back(known.size());
      std::size_t index = 0;
      for (const auto& members : what.buckets ? what.buckets(step) : three_buckets()) {
        std::vector<GradientPart> parts;
        std::vector<float> gradients;
        for (const std::size_t p : members) {
          parts.push_back(known[p]);
          parts.back().offset = gradients.size();
          for (std::size_t i = 0; i < known[p].count; ++i) gradients.push_back(gradient(rank, step, p, i));
        }
        GradientBucket bucket;
        bucket.gradients = gradients;
        bucket.parts = parts;
        bucket.index = index++;
        if (what.adjust) what.adjust(rank, step, bucket);
        hook->average(bucket, communicator);
        for (std::size_t m = 0; m < members.size(); ++m) {
          const auto part = bucket.gradients.subspan(parts[m].offset, parts[m].count);
          averages[members[m]].assign(part.begin(), part.end());
        }
      }
      hook->end_step(!what.drops || !what.drops(step));
    }
    outputs.state = hook->state();
  });
  return all;
}

std::vector<float> held_back(const HookState& state, const std::string& parameter) {
  for (const char* prefix : {"left out of ", "accumulated of "}) {
    if (const auto found = state.find(prefix + parameter); found != state.end()) return found->second;
  }
  return {};
}

bool same_bits(std::span<const float> one, std::span<const float> other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size_bytes()) == 0);
}

}  // namespace kolo::test
