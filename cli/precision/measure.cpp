#include "precision/measure.hpp"

#include <algorithm>
#include <cstring>

namespace kolo::precision {
namespace {

/// Half of the distance between 1 and the next number of the type to which sums are rounded.
double unit_roundoff(const Arithmetic& arithmetic) {
  const bool is_bfloat16 = arithmetic.element == DType::bfloat16 || arithmetic.wire == Wire::bfloat16;
  const bool is_float16 = arithmetic.element == DType::float16 || arithmetic.wire == Wire::float16;
  return is_bfloat16 ? 0x1p-8 : is_float16 ? 0x1p-11 : 0x1p-24;
}

bool have_same_bits(const std::vector<std::vector<float>>& outputs) {
  return std::ranges::all_of(outputs, [&](const std::vector<float>& output) {
    return std::memcmp(output.data(), outputs[0].data(), output.size() * sizeof(float)) == 0;
  });
}

}  // namespace

Measured measure(const ConfiguredAlgorithm& algorithm, int ranks, const Request& request) {
  ScheduleSpec spec{Collective::all_reduce, 0, ranks, 0, algorithm.arguments, {}};
  for (int rank = 0; request.ranks_per_host > 0 && rank < ranks; ++rank) {
    spec.hosts.push_back(rank / request.ranks_per_host);
  }
  Measured result{.algorithm = algorithm, .ranks = ranks, .ranks_per_host = request.ranks_per_host};
  const Requirements requirements{.rounded = request.arithmetic.wire != Wire::native};
  if (const Status status = supports(*algorithm.algorithm, spec, requirements); !status.ok()) {
    result.unable = status.message();
    return result;
  }
  const std::vector<Schedule> schedules = generate_all(*algorithm.algorithm, spec);
  const MessageGraph graph = MessageGraph::build(schedules).value();
  const std::vector<int> depths = rounding_depths(schedules, graph, request.count, request.arithmetic);
  result.roundings = *std::ranges::max_element(depths);
  result.unit_roundoff = unit_roundoff(request.arithmetic);
  const Contributions what{.data = request.data,
                           .order = request.order,
                           .element = request.arithmetic.element,
                           .ranks = ranks,
                           .count = request.count};
  for (int seed = 1; seed <= request.seeds; ++seed) {
    const auto contributions = what.draw(static_cast<std::uint64_t>(seed));
    const auto outputs = evaluate(schedules, graph, contributions, request.arithmetic);
    result.of_seeds.push_back(error_of(outputs[0], contributions, result.unit_roundoff));
    result.same_bits = result.same_bits && have_same_bits(outputs);
  }
  return result;
}

}  // namespace kolo::precision
