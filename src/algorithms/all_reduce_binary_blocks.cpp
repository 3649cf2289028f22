// all_reduce / binary_blocks: blocks of powers of two halve internally; smaller blocks join larger ones.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "algorithms/butterfly.hpp"
#include "algorithms/formula.hpp"
#include "algorithms/group.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

/// One block for each binary digit of N that is 1, from the highest on: that many consecutive ranks.
struct Block {
  int first;
  int size;

  Group seen_from(int place) const { return ranks_from(first, size, place); }
};

std::vector<Block> blocks_of(int size) {
  std::vector<Block> blocks;
  for (int first = 0; first < size;) {
    const auto block = static_cast<int>(std::bit_floor(static_cast<unsigned>(size - first)));
    blocks.push_back({first, block});
    first += block;
  }
  return blocks;
}

/// The chunks of the rank at `place` of a block after its block has done the reduce-scatter.
schedule::ChunkRange share(const Block& block, int place, std::uint32_t chunks, schedule::BufferName buffer) {
  const auto layers = butterfly_layers(block.seen_from(place), twos(static_cast<std::uint32_t>(block.size)),
                                       chunks, Near::first);
  return layers.empty() ? schedule::ChunkRange{buffer, 0, chunks} : layers.back().own(buffer);
}

/// Steps until the largest block has all sums.
std::uint64_t joining_steps(std::uint64_t n) {
  std::uint64_t block = n & -n;  // the smallest block
  std::uint64_t steps = floor_log2(block);
  for (n -= block; n > 0; n -= block) {
    const std::uint64_t ratio = (n & -n) / block;
    block *= ratio;
    steps = std::max(steps, floor_log2(block)) + ratio;
  }
  return steps;
}

schedule::Schedule generate_all_reduce_binary_blocks(const ScheduleSpec& spec) {
  const std::vector<Block> blocks = blocks_of(spec.size);
  std::size_t b = 0;
  while (spec.rank >= blocks[b].first + blocks[b].size) ++b;
  const Block& block = blocks[b];
  const int place = spec.rank - block.first;
  const auto chunks = static_cast<std::uint32_t>(blocks[0].size);
  const auto layers = butterfly_layers(block.seen_from(place), twos(static_cast<std::uint32_t>(block.size)),
                                       chunks, Near::first);
  // Visits the ranks of the next larger block whose shares make up this rank's share.
  const auto for_each_larger = [&](auto visit) {
    if (b == 0) return;
    for (int other = place; other < blocks[b - 1].size; other += block.size) {
      visit(blocks[b - 1].first + other, share(blocks[b - 1], other, chunks, schedule::BufferName::output));
    }
  };

  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, chunks);
  if (spec.size == 1) builder.copy(schedule::output(0), schedule::input(0));
  const bool is_smallest = b + 1 == blocks.size();
  Turns down(builder, spec);
  butterfly_reduce_scatter(builder, down, layers, schedule::BufferName::input, b == 0 && is_smallest);
  schedule::BufferName held = layers.empty() ? schedule::BufferName::input : schedule::BufferName::output;
  const int smaller = is_smallest ? -1 : blocks[b + 1].first + place % blocks[b + 1].size;
  const schedule::ChunkRange own = share(block, place, chunks, schedule::BufferName::output);
  if (!is_smallest) {
    builder.recv_reduce(smaller, own, share(block, place, chunks, held), b == 0);
    held = schedule::BufferName::output;
  }
  for_each_larger([&](int rank, schedule::ChunkRange part) {
    builder.send(rank, {held, part.begin, part.count});
  });
  for_each_larger([&](int rank, schedule::ChunkRange part) { builder.recv(rank, part); });
  // First send to the smaller block, which waits for the whole share, then gather in this rank's own block.
  // For this rank the order makes no difference.
  Turns up = Turns::always(builder);
  if (!is_smallest) up.send(smaller, own);
  butterfly_all_gather(builder, up, layers);
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_binary_blocks = {
    .collective = schedule::Collective::all_reduce,
    .name = "binary_blocks",
    .purpose = "Blocks of powers of two halve among themselves, smaller ones join larger ones, then all back",
    .use = "Medium-sized data, a number of ranks a little below a power of two; any operation",
    .source =
        "R. Rabenseifner, J. L. Traff: More efficient reduction algorithms for non-power-of-two number of "
        "processors in message-passing parallel systems, EuroPVM/MPI 2004, section 3",
    .rank_ordered = true,
    .closed_form =
        {.steps = "2 log2 N for a power of two; else F + 1 + log2 P, where F = max(F, log2 B) + B/b for "
                  "each block "
                  "of B ranks that joins a smaller one of b, and log2 b for the smallest (P: the largest)",
         .sent = "2(P-1)/P n for a power of two; (2P-1)/P n for two blocks; else 2 n",
         .cost = [](std::uint64_t n, const ScheduleSpec&) -> StepsAndBytes {
           const std::uint64_t p = std::bit_floor(n);
           const int blocks = std::popcount(n);
           if (blocks == 1) return {2 * floor_log2(p), 2 * (p - 1)};
           return {joining_steps(n) + 1 + floor_log2(p), 2 * p - (blocks == 2 ? 1 : 0)};
         }},
    .generate = generate_all_reduce_binary_blocks,
};

}  // namespace kolo::algorithms
