// broadcast / chain: every rank passes piece after piece to the next.
#include <utility>

#include "algorithms/pairs.hpp"
#include "algorithms/pipeline.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_broadcast_chain(const ScheduleSpec& spec) {
  const std::uint32_t chunks = chunks_of(spec);
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, chunks);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    if (spec.rank != spec.root) builder.recv(before(spec, 1), schedule::output(chunk));
    if (after(spec, 1) != spec.root) builder.send(after(spec, 1), schedule::output(chunk));
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm broadcast_chain = {
    .collective = schedule::Collective::broadcast,
    .name = "chain",
    .purpose = "Every rank hands piece after piece to the next; all links are busy at once",
    .use = "Large data, few ranks: no rank sends more than the data once",
    .source = kChainSource,
    .parameters = kChunksParameters,
    .tried = kTriedInChains,
    .closed_form = kChain,
    .objection = chunks_objection,
    .generate = generate_broadcast_chain,
};

}  // namespace kolo::algorithms
