// reduce / chain: sums travel piece after piece along a chain of all ranks to the root.
#include <utility>

#include "algorithms/pairs.hpp"
#include "algorithms/pipeline.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

/// Slots of scratch for sums in transit: one is received while the one before is sent.
constexpr std::uint32_t kChainTravellers = 2;

schedule::Schedule generate_reduce_chain(const ScheduleSpec& spec) {
  const std::uint32_t chunks = chunks_of(spec);
  const bool is_root = spec.rank == spec.root;
  const bool is_first = after(spec, 1) == spec.root;
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, chunks,
                                    is_root || is_first ? 0 : kChainTravellers);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    if (spec.size == 1) builder.copy(schedule::output(chunk), schedule::input(chunk));
    schedule::ChunkRange sum = schedule::input(chunk);
    if (!is_first) {
      sum = is_root ? schedule::output(chunk)
                    : schedule::scratch(chunk % kChainTravellers, schedule::input(chunk));
      builder.recv_reduce(after(spec, 1), sum, schedule::input(chunk), is_root);
    }
    if (!is_root) builder.send(before(spec, 1), sum);
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm reduce_chain = {
    .collective = schedule::Collective::reduce,
    .name = "chain",
    .purpose = "Sums of piece after piece travel along a chain of all ranks to the root",
    .use = "Large data, few ranks: no rank sends or adds more than the data once",
    .source = kChainSource,
    .parameters = kChunksParameters,
    .tried = kTriedInChains,
    .closed_form = kChain,
    .objection = chunks_objection,
    .generate = generate_reduce_chain,
};

}  // namespace kolo::algorithms
