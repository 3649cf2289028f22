// kolo check: proves algorithms from the command line.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "catalog/proof.hpp"
#include "catalog/request.hpp"
#include "commands.hpp"
#include "kolo/error.hpp"
#include "text/columns.hpp"

namespace kolo::cli {
namespace {

constexpr int kRefused = 1;
constexpr int kMostRanks = 4096;

constexpr const char* kCheckFooter = R"(Examples:
  kolo check                                          every algorithm, with 2, 3 and 8 ranks
  kolo check all_reduce --ranks 1:64                  every all_reduce, with each number of ranks up to 64
  kolo check all_reduce ring --ranks 1000             one algorithm
  kolo check all_reduce ring:order=2-0-1 --ranks 3 --count 1001
  kolo check broadcast --hosts 3,2,3 --root 4 --json  eight ranks on three hosts, as JSON lines

Proved: without a network, that every result holds each rank's contribution exactly once, that sends meet
receives, that nothing waits in a circle, that memory is in bounds and used in order. Then its steps, each
with at most one message out of a rank and one into it, and the chunks that the busiest rank sends are
counted and compared with the closed form that the algorithm states. K is the whole data, over all parts
where each rank has one.

Exit code: 0 when all that can be served is proved and as stated, 1 when something is not; 2 for wrong
usage.)";

struct CheckArguments {
  std::string collective, algorithm, ranks, hosts;
  int root = 0;
  std::optional<std::uint64_t> count;
  bool json = false;
};

struct Row {
  algorithms::ConfiguredAlgorithm configured;
  algorithms::ScheduleSpec spec;
  Proof proof;
};

std::vector<algorithms::ConfiguredAlgorithm> chosen_algorithms(const CheckArguments& arguments) {
  if (!arguments.algorithm.empty()) {
    return {algorithms::parse_algorithm(algorithms::require_collective(arguments.collective).value_or_throw(),
                                        arguments.algorithm)
                .value_or_throw()};
  }
  std::optional<schedule::Collective> only;
  if (!arguments.collective.empty())
    only = algorithms::require_collective(arguments.collective).value_or_throw();
  std::vector<algorithms::ConfiguredAlgorithm> result;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (!only || algorithm.collective == *only) result.push_back({&algorithm, {}});
  }
  if (result.empty()) {
    throw InvalidArgument(fmt::format("{} has no algorithms to check", arguments.collective), {});
  }
  return result;
}

std::string share(std::uint64_t elements, std::uint64_t of) {
  return of == 0 ? "0" : fmt::format("{:.4g}", static_cast<double>(elements) / static_cast<double>(of));
}

/// Empty if the proof has no problem.
std::string remark(const Proof& proof) {
  if (!proof.unable.empty()) return proof.unable;
  if (!proof.refusal.empty()) return proof.refusal;
  if (proof.as_stated()) return {};
  return fmt::format("NOT AS STATED: {} steps and {} chunks sent, stated are {}{} and {}",
                     proof.counted.steps, proof.counted.sent, proof.at_most ? "at most " : "",
                     proof.stated.steps, proof.stated.sent);
}

Cells cells_of(const Row& row) {
  const algorithms::Algorithm& algorithm = *row.configured.algorithm;
  const Proof& proof = row.proof;
  Cells cells = {fmt::format("  {}", schedule::name_of(algorithm.collective)), row.configured.name(),
                 std::to_string(row.spec.size)};
  if (proof.proved()) {
    const schedule::ScheduleTotals& totals = proof.totals;
    cells.insert(cells.end(),
                 {std::to_string(totals.steps), std::to_string(totals.messages),
                  share(totals.max_sent, proof.elements), share(totals.max_received, proof.elements),
                  share(totals.max_link, proof.elements)});
  } else {
    cells.insert(cells.end(), 5, "-");
  }
  const algorithms::ClosedForm& form = algorithm.closed_form;
  cells.push_back(proof.proved() ? "proved" : proof.unable.empty() ? "REFUSED" : "not served");
  cells.push_back(remark(proof));
  if (cells.back().empty()) {
    cells.back() =
        fmt::format("steps {}, sends {}", stated_text(form, form.steps), stated_text(form, form.sent));
  }
  return cells;
}

void print_table(const std::vector<Row>& rows) {
  std::vector<Cells> lines = {{"#", "", "", "", "", "sends", "receives", "link", "", ""},
                              {"# collective", "algorithm", "ranks", "steps", "messages", "K", "K", "K", "",
                               "as its closed form says"}};
  for (const Row& row : rows) lines.push_back(cells_of(row));
  fmt::print("{}", in_columns(lines, 2, 8));
}

void print_json(const Row& row) {
  const algorithms::Algorithm& algorithm = *row.configured.algorithm;
  const Proof& proof = row.proof;
  nlohmann::ordered_json line = {{"collective", schedule::name_of(algorithm.collective)},
                                 {"algorithm", row.configured.name()},
                                 {"ranks", row.spec.size},
                                 {"root", row.spec.root},
                                 {"proved", proof.proved()}};
  if (!proof.unable.empty()) line["not_served"] = proof.unable;
  if (!proof.refusal.empty()) line["refusal"] = proof.refusal;
  if (proof.proved()) {
    line.update({{"elements", proof.elements},
                 {"steps", proof.totals.steps},
                 {"rounds", proof.totals.rounds},
                 {"messages", proof.totals.messages},
                 {"max_sent", proof.totals.max_sent},
                 {"max_received", proof.totals.max_received},
                 {"max_link", proof.totals.max_link},
                 {"closed_form",
                  {{"steps", algorithm.closed_form.steps},
                   {"sent", algorithm.closed_form.sent},
                   {"at_most", proof.at_most}}},
                 {"counted", {{"steps", proof.counted.steps}, {"chunks_sent", proof.counted.sent}}},
                 {"stated", {{"steps", proof.stated.steps}, {"chunks_sent", proof.stated.sent}}},
                 {"as_stated", proof.as_stated()}});
  }
  fmt::print("{}\n", line.dump());
}

int run_check(const CheckArguments& arguments) {
  const std::vector<int> hosts = parse_ranks_per_host(arguments.hosts);
  const std::vector<int> sizes = parse_ranks(arguments.ranks, hosts, kMostRanks, {2, 3, 8});
  const std::vector<algorithms::ConfiguredAlgorithm> wanted = chosen_algorithms(arguments);
  const bool speaks = ::isatty(STDERR_FILENO) != 0;
  std::vector<Row> rows;
  for (const algorithms::ConfiguredAlgorithm& configured : wanted) {
    for (const int size : sizes) {
      const algorithms::Algorithm& algorithm = *configured.algorithm;
      if (arguments.root < 0 || arguments.root >= size) {
        throw InvalidArgument(
            fmt::format("--root {}: the {} ranks are 0 to {}", arguments.root, size, size - 1), {});
      }
      const int root = schedule::has_root(algorithm.collective) ? arguments.root : 0;
      if (speaks) {
        fmt::print(stderr, "\r\033[K{} {} with {} ranks ({} of {})", schedule::name_of(algorithm.collective),
                   configured.name(), size, rows.size() + 1, wanted.size() * sizes.size());
      }
      const algorithms::ScheduleSpec spec{algorithm.collective, 0, size, root, configured.arguments, hosts};
      rows.push_back({configured, spec, prove(configured, spec, arguments.count)});
      if (arguments.json) print_json(rows.back());
    }
  }
  if (speaks) fmt::print(stderr, "\r\033[K");
  // An algorithm named by the user that can serve no case is wrong usage.
  const auto served = [](const Row& row) { return row.proof.unable.empty(); };
  if (!arguments.algorithm.empty() && std::ranges::none_of(rows, served)) {
    throw InvalidArgument(rows.back().proof.unable, {});
  }
  const auto fine = std::ranges::count_if(rows, [](const Row& row) { return row.proof.fine(); });
  if (!arguments.json) {
    print_table(rows);
    const auto proved = std::ranges::count_if(rows, [](const Row& row) { return row.proof.proved(); });
    fmt::print("# {} proved, {} not served, {} not right\n", proved,
               rows.size() - static_cast<std::size_t>(std::ranges::count_if(rows, served)),
               static_cast<std::ptrdiff_t>(rows.size()) - fine);
  }
  return fine == static_cast<std::ptrdiff_t>(rows.size()) ? 0 : kRefused;
}

}  // namespace

void add_check(CLI::App& app) {
  CLI::App* check = app.add_subcommand("check", "Prove algorithms right and count what they cost");
  const auto arguments = std::make_shared<CheckArguments>();
  check->footer(kCheckFooter);
  check->add_option("collective", arguments->collective, "all_reduce, broadcast, ... (default: all)")
      ->type_name("");
  check->add_option("algorithm", arguments->algorithm, "NAME[:PARAMETER=VALUE]... (default: all)")
      ->type_name("");
  check->add_option("-n,--ranks", arguments->ranks, "One number, or all from A to B (default: 2, 3 and 8)")
      ->type_name("N|A:B");
  check->add_option("--hosts", arguments->hosts, "Ranks on each host, in order, as in 3,2,3")
      ->type_name("LIST");
  check->add_option("--root", arguments->root, "Of collectives that have one")
      ->capture_default_str()
      ->type_name("R");
  check->add_option("--count", arguments->count, "Elements of the whole data (default: one for each chunk)")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 50))
      ->type_name("C");
  check->add_flag("--json", arguments->json, "A JSON object a line");
  check->callback([arguments] {
    if (const int code = run_check(*arguments); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace kolo::cli
