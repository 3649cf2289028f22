// reduce_scatter / butterfly: layers in which groups of d1, d2, ... ranks exchange; their product is N.
#include <utility>

#include "algorithms/butterfly.hpp"
#include "algorithms/group.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

schedule::Schedule generate_reduce_scatter_butterfly(const ScheduleSpec& spec) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  const auto layers =
      butterfly_layers(all_ranks(spec), butterfly_degrees(spec), part_of(spec.size), Near::last);
  if (layers.empty()) builder.copy(schedule::output(0), schedule::input(0));
  // Sums of chunks that are still to be shared out stay in scratch, laid out as in the input.
  if (layers.size() > 1) builder.lay_scratch_like(layers[0].own(schedule::BufferName::input));
  const auto sums = [&](schedule::ChunkRange chunks) {
    return schedule::scratch(chunks.begin - layers[0].own_begin(), chunks);
  };
  Turns turns(builder, spec);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const ButterflyLayer& layer = layers[i];
    const auto held = [&](schedule::ChunkRange chunks) { return i == 0 ? chunks : sums(chunks); };
    const int others = layer.group.size() - 1;
    for (int k = 1; k <= others; ++k) {
      turns.send(layer.group.neighbour(k), held(layer.of(k, schedule::BufferName::input)));
    }
    const schedule::ChunkRange own = layer.own(schedule::BufferName::input);
    const bool is_last = i + 1 == layers.size();
    const schedule::ChunkRange sum = is_last ? schedule::output(0) : sums(own);
    schedule::ChunkRange operand = held(own);
    for (int k = 1; k <= others; ++k) {
      builder.recv_reduce(layer.group.neighbour(-k), sum, operand, is_last && k == others);
      operand = sum;
    }
  }
  return std::move(builder).finish();
}

}  // namespace

const Algorithm reduce_scatter_butterfly = {
    .collective = schedule::Collective::reduce_scatter,
    .name = "butterfly",
    .purpose =
        "Layers of exchanges among groups of d1, d2, ... ranks: recursive halving for any N with small "
        "factors",
    .use =
        "Small and medium-sized parts, N with small factors; with degrees, from direct (N) to halving "
        "(2-2-...)",
    .source = kButterflySource,
    .parameters = kButterflyParameters,
    .closed_form = kButterflyHalf,
    .objection = butterfly_objection,
    .generate = generate_reduce_scatter_butterfly,
};

}  // namespace kolo::algorithms
