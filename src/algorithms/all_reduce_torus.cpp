// all_reduce / torus: ranks in a grid; reduce-scatter along rows, all_reduce along columns, all-gather along
// rows.
#include <array>
#include <string>
#include <utility>

#include "algorithms/formula.hpp"
#include "algorithms/group.hpp"
#include "algorithms/pairs.hpp"
#include "algorithms/registered.hpp"
#include "algorithms/ring.hpp"
#include "schedule/builder.hpp"

namespace kolo::algorithms {
namespace {

constexpr std::array<Parameter, 1> kTorusParameters = {
    {{"rows", "rows of the grid; else the largest divisor of N that is not above its square root"}}};

int rows_of(const ScheduleSpec& spec) {
  int rows = 1;
  for (int d = 2; d <= spec.size / d; ++d) {
    if (spec.size % d == 0) rows = d;
  }
  return spec.arguments.number("rows", rows);
}

std::string torus_objection(const ScheduleSpec& spec) {
  if (spec.size % rows_of(spec) == 0) return {};
  return "needs rows that divide the " + std::to_string(spec.size) + " ranks";
}

schedule::Schedule generate_all_reduce_torus(const ScheduleSpec& spec) {
  const int rows = rows_of(spec);
  const int columns = spec.size / rows;
  const int row = spec.rank / columns;
  const int column = spec.rank % columns;
  const Group along_row = ranks_from(row * columns, columns, column);
  const Group along_column = ranks_from(column, rows, row, columns);
  // Each column has a block of chunks, each rank in it one of them.
  const auto block = [&](schedule::BufferName buffer, int rank) {
    return schedule::ChunkRange{buffer, part_of(rank % columns * rows), part_of(rows)};
  };
  const auto chunk = [&](schedule::BufferName buffer, int rank) {
    return schedule::ChunkRange{buffer, part_of(rank % columns * rows + rank / columns), 1};
  };
  const schedule::BufferName held = columns > 1 ? schedule::BufferName::output : schedule::BufferName::input;
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, part_of(spec.size));
  if (spec.size == 1) builder.copy(schedule::output(0), schedule::input(0));
  // When the neighbour changes, messages to the new one leave after those to the one before, for which their
  // receiver waits.
  const auto sent_along_row = ring_reduce_scatter(
      builder, along_row, [&](int rank) { return block(schedule::BufferName::input, rank); },
      [&](int rank, std::uint32_t) { return block(schedule::BufferName::output, rank); }, rows == 1);
  ring_reduce_scatter(
      builder, along_column, [&](int rank) { return chunk(held, rank); },
      [&](int rank, std::uint32_t) { return chunk(schedule::BufferName::output, rank); }, true,
      sent_along_row);
  const auto sent_along_column =
      ring_all_gather(builder, along_column, chunk(schedule::BufferName::output, spec.rank),
                      [&](int rank) { return chunk(schedule::BufferName::output, rank); });
  ring_all_gather(
      builder, along_row, block(schedule::BufferName::output, spec.rank),
      [&](int rank) { return block(schedule::BufferName::output, rank); }, sent_along_column);
  return std::move(builder).finish();
}

}  // namespace

const Algorithm all_reduce_torus = {
    .collective = schedule::Collective::all_reduce,
    .name = "torus",
    .purpose = "Ranks in a grid: reduce-scatter along rows, all_reduce along columns, all-gather along rows",
    .use =
        "Large data, many ranks: the bytes of the ring in about 4 sqrt N rounds; networks that are a torus",
    .source =
        "E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory, practice, "
        "and experience, CCPE 19 (2007), bucket algorithms on meshes",
    .parameters = kTorusParameters,
    .closed_form = {.steps = "2(N/R-1) + 2(R-1) (R: rows)",
                    .sent = "2(N-1)/N n",
                    .cost = [](std::uint64_t n, const ScheduleSpec& spec) -> StepsAndBytes {
                      const auto rows = static_cast<std::uint64_t>(rows_of(spec));
                      return {2 * (n / rows - 1) + 2 * (rows - 1), 2 * (n - 1)};
                    }},
    .objection = torus_objection,
    .generate = generate_all_reduce_torus,
};

}  // namespace kolo::algorithms
