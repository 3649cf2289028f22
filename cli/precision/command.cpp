// kolo precision: how far the sum of an all-reduce is from the exact one.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "base/element.hpp"
#include "catalog/request.hpp"
#include "commands.hpp"
#include "evaluation/evaluate.hpp"
#include "options.hpp"
#include "precision/contributions.hpp"
#include "precision/sum_error.hpp"
#include "text/columns.hpp"
#include "text/json_lines.hpp"
#include "text/refuse.hpp"

namespace kolo::precision {
namespace {

constexpr std::size_t kNameWidth = 19;

constexpr const char* kPrecisionFooter = R"(Examples:
  kolo precision                               all, with 2, 4, 8, ... 256 ranks
  kolo precision ring central --ranks 8,64,512     two of them
  kolo precision ring --data one_large --order descending
  kolo precision ring direct --wire bfloat16   rounded in each message
  kolo precision ring --type bfloat16 --json   arrays of bfloat16

Computed from the schedules that run, without a network: a real all_reduce gives
the same bits. u is the unit roundoff, in arrays or on the wire: 2^-24 of
float32, 2^-11 of float16, 2^-8 of bfloat16, 2^-4 and 2^-3 of float8 e4m3fn and
e5m2. S is the sum of the magnitudes, sum |x|.

  roundings           the most between a contribution and the result: so many
                      u S are the bound on the error
  mean, rms, largest  of the elements' errors, each divided by its u S
  of rms              the errors' root mean square, and the largest error,
                      divided by the root mean square of the exact sums

Exit code: 1 when ranks end with different bits ('kolo help').)";

struct PrecisionArguments {
  std::vector<std::string> algorithms, ranks;
  std::string data = "normal", order = "drawn", type = "float32", wire = "native";
  int per_host = 0, seeds = 5;
  std::uint64_t count = 4096;
  std::string json;
};

/// A value.
struct Measured {
  algorithms::ConfiguredAlgorithm algorithm = {};
  int ranks = 0;
  std::string unable = {};   ///< why the algorithm cannot serve the case; then no member below is valid
  double unit_roundoff = 0;  ///< u: the largest relative error of one rounding
  int roundings = 0;         ///< the maximum number between a contribution and the result
  std::vector<SumError> of_seeds = {};
  bool same_bits = true;  ///< on all ranks, with every seed
};

/// Half of the distance between 1 and the next number of the type to which sums are rounded.
double unit_roundoff(const evaluation::Arithmetic& arithmetic) {
  DType rounded = arithmetic.element;
  if (arithmetic.wire != Wire::native) parse_dtype(name_of(arithmetic.wire), rounded);
  return std::ldexp(1.0, -element_type(rounded).digits);
}

/// The floating types that are no longer than float32.
std::vector<std::string> element_names() {
  std::vector<std::string> names;
  for (const ElementType& type : kElementTypes) {
    if (type.computed == DType::float32) names.emplace_back(type.name);
  }
  return names;
}

bool have_same_bits(const std::vector<std::vector<float>>& outputs) {
  return std::ranges::all_of(outputs, [&](const std::vector<float>& output) {
    return std::memcmp(output.data(), outputs[0].data(), output.size() * sizeof(float)) == 0;
  });
}

/// The enumerator of a name, which must be in the list.
template <typename Enum, std::size_t kCount>
Enum named(const std::string_view (&names)[kCount], const std::string& name) {
  return static_cast<Enum>(std::ranges::find(names, name) - names);
}

/// Evaluates the schedules of all_reduce, a sum, for each seed: 1, 2, ...
Measured measure(const algorithms::ConfiguredAlgorithm& algorithm, int ranks,
                 const evaluation::Arithmetic& arithmetic, const PrecisionArguments& request) {
  algorithms::ScheduleSpec spec{schedule::Collective::all_reduce, 0, ranks, 0, algorithm.arguments, {}};
  for (int rank = 0; request.per_host > 0 && rank < ranks; ++rank) {
    spec.hosts.push_back(rank / request.per_host);
  }
  Measured result{.algorithm = algorithm, .ranks = ranks};
  const schedule::CallKey key{.wire = arithmetic.wire};
  if (const Status status = algorithms::supports(*algorithm.algorithm, spec, key); !status.ok()) {
    result.unable = status.message();
    return result;
  }
  const std::vector<schedule::Schedule> schedules = algorithms::generate_all(*algorithm.algorithm, spec);
  const schedule::MessageGraph graph = schedule::MessageGraph::build(schedules).value();
  const std::vector<int> depths = evaluation::rounding_depths(schedules, graph, request.count, arithmetic);
  result.roundings = *std::ranges::max_element(depths);
  result.unit_roundoff = unit_roundoff(arithmetic);
  const Contributions what{.data = named<Data>(kDataNames, request.data),
                           .order = named<Order>(kOrderNames, request.order),
                           .element = arithmetic.element,
                           .ranks = ranks,
                           .count = request.count};
  for (int seed = 1; seed <= request.seeds; ++seed) {
    const auto contributions = what.draw(static_cast<std::uint64_t>(seed));
    const auto outputs = evaluation::evaluate(schedules, graph, contributions, arithmetic);
    result.of_seeds.push_back(error_of(outputs[0], contributions, result.unit_roundoff));
    result.same_bits = result.same_bits && have_same_bits(outputs);
  }
  return result;
}

std::vector<int> ranks_of(const std::vector<std::string>& texts) {
  std::vector<int> result;
  for (const std::string& text : texts) {
    for (const int ranks : cli::parse_ranks(text, {}, kMostRanks, {})) result.push_back(ranks);
  }
  if (texts.empty()) result = {2, 4, 8, 16, 32, 64, 128, 256};
  if (std::ranges::find(result, 1) != result.end()) {
    cli::refuse("--ranks 1: nothing is summed; two ranks are the least");
  }
  return result;
}

std::vector<algorithms::ConfiguredAlgorithm> algorithms_of(const std::vector<std::string>& names) {
  std::vector<algorithms::ConfiguredAlgorithm> result;
  for (const std::string& name : names) {
    result.push_back(algorithms::parse_algorithm(schedule::Collective::all_reduce, name).value_or_throw());
  }
  if (!names.empty()) return result;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (algorithm.collective == schedule::Collective::all_reduce) result.push_back({&algorithm, {}});
  }
  return result;
}

evaluation::Arithmetic arithmetic_of(const PrecisionArguments& arguments) {
  evaluation::Arithmetic arithmetic;
  parse_dtype(arguments.type, arithmetic.element);
  float large = kLarge;
  round_to(arithmetic.element, {&large, 1});
  if (large != kLarge && (arguments.data == "one_large" || arguments.data == "cancelling"))
    cli::refuse("--data {}: {} is no {}", arguments.data, kLarge, arguments.type);
  parse_wire(arguments.wire, arithmetic.wire);
  if (arithmetic.element != DType::float32 && arithmetic.wire != Wire::native)
    cli::refuse("--wire {}: wire formats are for float32, not {}", arguments.wire, arguments.type);
  return arithmetic;
}

nlohmann::ordered_json json_of(const PrecisionArguments& arguments, const Measured& row) {
  nlohmann::ordered_json line = {{"algorithm", row.algorithm.name()},
                                 {"ranks", row.ranks},
                                 {"ranks_per_host", arguments.per_host},
                                 {"data", arguments.data},
                                 {"order", arguments.order},
                                 {"type", arguments.type},
                                 {"wire", arguments.wire}};
  if (!row.unable.empty()) {
    line["not_served"] = row.unable;
    return line;
  }
  SumError all;
  nlohmann::ordered_json rms, rms_units;
  for (const SumError& error : row.of_seeds) {
    all += error;
    rms.push_back(error.relative.rms());
    rms_units.push_back(error.rms_units());
  }
  line.update({{"count", arguments.count},
               {"seeds", arguments.seeds},
               {"unit_roundoff", row.unit_roundoff},
               {"roundings", row.roundings},
               {"mean_units", all.mean_units()},
               {"rms_units", all.rms_units()},
               {"largest_units", all.largest_units},
               {"rms_units_of_seeds", rms_units},
               {"rms_of_rms", all.relative.rms()},
               {"largest_of_rms", all.relative.most()},
               {"rms_of_rms_of_seeds", rms},
               {"infinite", all.infinite},
               {"same_bits", row.same_bits}});
  return line;
}

/// Fits a terminal of 80 columns.
cli::TableLayout layout_for(std::span<const algorithms::ConfiguredAlgorithm> wanted) {
  std::size_t width = 9;
  for (const algorithms::ConfiguredAlgorithm& algorithm : wanted)
    width = std::max(width, algorithm.name().size());
  return cli::TableLayout({{"algorithm", "", std::min(width, kNameWidth) + 2, true},
                           {"ranks", "", 6},
                           {"roundings", "", 10},
                           {"mean", "u S", 8},
                           {"rms", "u S", 8},
                           {"largest", "u S", 9},
                           {"rms", "of rms", 10, false, 1},
                           {"largest", "of rms", 10},
                           {"bits", "", 8, true}},
                          cli::kTerminalWidth);
}

void print_head(const PrecisionArguments& arguments, const cli::TableLayout& layout) {
  fmt::print("# {} elements a rank, {}, {}, {}, wire {}, {} seeds\n", arguments.count, arguments.data,
             arguments.order, arguments.type, arguments.wire, arguments.seeds);
  fmt::print("{}", layout.heading());
}

void print_row(const Measured& row, const cli::TableLayout& layout) {
  const std::string name = cli::shortened(row.algorithm.name(), kNameWidth);
  const std::string ranks = fmt::format("{}", row.ranks);
  if (!row.unable.empty()) {
    fmt::print("{}", cli::wrapped("not served: " + row.unable, cli::kTerminalWidth,
                                  fmt::format("  {}, {} ranks: ", name, ranks), "    "));
    return;
  }
  SumError all;
  for (const SumError& error : row.of_seeds) all += error;
  const std::string infinite = all.infinite > 0 ? fmt::format(", {} infinite", all.infinite) : "";
  fmt::print(
      "{}",
      layout.row({name, ranks, fmt::format("{}", row.roundings), fmt::format("{:.4g}", all.mean_units()),
                  fmt::format("{:.4g}", all.rms_units()), fmt::format("{:.4g}", all.largest_units),
                  fmt::format("{:.3g}", all.relative.rms()), fmt::format("{:.3g}", all.relative.most()),
                  (row.same_bits ? "same" : "DIFFER") + infinite}));
}

int run_precision(const PrecisionArguments& arguments) {
  const evaluation::Arithmetic arithmetic = arithmetic_of(arguments);
  const std::vector<int> sizes = ranks_of(arguments.ranks);
  const std::vector<algorithms::ConfiguredAlgorithm> wanted = algorithms_of(arguments.algorithms);
  const cli::TableLayout layout = layout_for(wanted);
  cli::JsonLines json(arguments.json);
  if (!json.replaces_text()) print_head(arguments, layout);
  bool same_bits = true;
  std::string unable;
  bool any_served = false;
  for (const algorithms::ConfiguredAlgorithm& algorithm : wanted) {
    for (const int ranks : sizes) {
      const Measured row = measure(algorithm, ranks, arithmetic, arguments);
      same_bits = same_bits && row.same_bits;
      any_served = any_served || row.unable.empty();
      unable = row.unable;
      json.write(json_of(arguments, row).dump());
      if (!json.replaces_text()) print_row(row, layout);
      std::fflush(stdout);
    }
  }
  // An algorithm named by the user that can serve no case is wrong usage.
  if (!arguments.algorithms.empty() && !any_served) cli::refuse("{}", unable);
  return same_bits ? 0 : 1;
}

std::vector<std::string> list_of(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

}  // namespace
}  // namespace kolo::precision

namespace kolo::cli {

void add_precision(CLI::App& app) {
  using namespace kolo::precision;
  CLI::App* precision = app.add_subcommand("precision", "Measure how far a sum is from the exact one");
  const auto arguments = std::make_shared<PrecisionArguments>();
  precision->footer(kPrecisionFooter);
  precision->add_option("ALGORITHM", arguments->algorithms, "NAME[:PARAMETER=VALUE]... (default: all)");
  cli::add_value(*precision, "-n,--ranks", arguments->ranks, "LIST",
                 "How many, or ranges, as in 2:8,64 (default: powers of two, 2 to 256)")
      ->delimiter(',');
  cli::add_value(*precision, "--per-host", arguments->per_host, "N",
                 "Ranks on each host (default: all on one)")
      ->check(CLI::Range(1, kMostRanks));
  cli::add_value(*precision, "--data", arguments->data, "NAME",
                 "How numbers are drawn; cancelling: two ranks have 16384 and -16384; one_large: one has "
                 "16384")
      ->check(CLI::IsMember(list_of(kDataNames)));
  cli::add_value(*precision, "--order", arguments->order, "NAME",
                 "Which rank has which number of an element; ascending: rank 0 the smallest magnitude")
      ->check(CLI::IsMember(list_of(kOrderNames)));
  cli::add_value(*precision, "--type", arguments->type, "NAME", "The type of the arrays")
      ->check(CLI::IsMember(element_names()));
  cli::add_value(*precision, "--wire", arguments->wire, "NAME", "The format of messages")
      ->check(CLI::IsMember({"native", "float16", "bfloat16"}));
  cli::add_value(*precision, "--count", arguments->count, "N", "Elements of each rank")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 20));
  cli::add_value(*precision, "--seeds", arguments->seeds, "N", "How often the data is drawn")
      ->check(CLI::Range(1, 1000));
  cli::add_json(*precision, arguments->json, "an object a line");
  precision->callback([arguments] {
    if (const int code = run_precision(*arguments); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace kolo::cli
