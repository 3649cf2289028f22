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
#include "options.hpp"
#include "text/columns.hpp"
#include "text/json_lines.hpp"
#include "text/refuse.hpp"

namespace kolo::cli {
namespace {

constexpr int kRefused = 1;
constexpr int kMostCheckedRanks = 4096;

constexpr const char* kCheckFooter = R"(Examples:
  kolo check                                   all, with 2, 3 and 8 ranks
  kolo check all_reduce --ranks 1:64           with each number up to 64
  kolo check all_reduce ring --ranks 1000      one algorithm
  kolo check all_reduce ring:order=2-0-1 --ranks 3 --count 1001
  kolo check broadcast --hosts 3,2,3 --root 4 --json

Proved, without a network: every result holds each rank's contribution exactly
once, sends meet receives, nothing waits in a circle, memory is in bounds and
used in order. The steps, and what the busiest rank sends, are counted and
compared with the closed form that the algorithm states (--wide shows it). In a
step a rank sends at most one message and receives at most one. n is the number
of bytes of the whole data, over all parts where each rank has one.

Exit code: 1 when something is refused, or not as stated ('kolo help').)";

struct CheckArguments {
  std::string collective, algorithm, ranks, hosts;
  int root = 0;
  std::optional<std::uint64_t> count;
  std::string json;
  bool wide = false;
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
    refuse("{} has no algorithms to check", arguments.collective);
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
  const Proof& proof = row.proof;
  Cells cells = {"  " + row.configured.name(), std::to_string(row.spec.size)};
  if (proof.proved()) {
    const schedule::ScheduleTotals& totals = proof.totals;
    cells.insert(cells.end(),
                 {std::to_string(totals.steps), std::to_string(totals.messages),
                  share(totals.max_sent, proof.elements), share(totals.max_received, proof.elements),
                  share(totals.max_link, proof.elements)});
  } else {
    cells.insert(cells.end(), 5, "-");
  }
  cells.push_back(proof.proved() ? "proved" : proof.unable.empty() ? "REFUSED" : "not served");
  const algorithms::ClosedForm& form = row.configured.algorithm->closed_form;
  cells.push_back(
      fmt::format("steps {}, sends {}", stated_text(form, form.steps), stated_text(form, form.sent)));
  return cells;
}

/// A table for each collective, with the remark on a row below it.
void print_tables(const std::vector<Row>& rows, bool wide) {
  const std::vector<Column> columns = {
      {"algorithm", "", 0, true},    {"ranks"},         {"steps"},
      {"messages", "", 0, false, 1}, {"sends", "n"},    {"receives", "n"},
      {"link", "n", 0, false, 2},    {"", "", 0, true}, {"closed form", "", 0, true, 3}};
  std::vector<Cells> lines;
  for (const Row& row : rows) lines.push_back(cells_of(row));
  const TableLayout layout(with_widths(columns, lines), table_width(wide));
  fmt::print("{}", layout.heading());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const schedule::Collective collective = rows[i].configured.algorithm->collective;
    if (i == 0 || rows[i - 1].configured.algorithm->collective != collective)
      fmt::print("  {}\n", schedule::name_of(collective));
    fmt::print("{}", layout.row(lines[i]));
    if (const std::string text = remark(rows[i].proof); !text.empty())
      fmt::print("{}", wrapped(text, kTerminalWidth, "      ", "      "));
  }
}

std::string json_of(const Row& row) {
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
  return line.dump();
}

int run_check(const CheckArguments& arguments) {
  const std::vector<int> hosts = parse_ranks_per_host(arguments.hosts);
  const std::vector<int> sizes = parse_ranks(arguments.ranks, hosts, kMostCheckedRanks, {2, 3, 8});
  const std::vector<algorithms::ConfiguredAlgorithm> wanted = chosen_algorithms(arguments);
  JsonLines json(arguments.json);
  const bool speaks = ::isatty(STDERR_FILENO) != 0;
  std::vector<Row> rows;
  for (const algorithms::ConfiguredAlgorithm& configured : wanted) {
    for (const int size : sizes) {
      const algorithms::Algorithm& algorithm = *configured.algorithm;
      const int root = checked_root(arguments.root, algorithm.collective, size);
      if (speaks) {
        fmt::print(stderr, "\r\033[K{} {} with {} ranks ({} of {})", schedule::name_of(algorithm.collective),
                   configured.name(), size, rows.size() + 1, wanted.size() * sizes.size());
      }
      const algorithms::ScheduleSpec spec{algorithm.collective, 0, size, root, configured.arguments, hosts};
      rows.push_back({configured, spec, prove(configured, spec, arguments.count)});
      json.write(json_of(rows.back()));
    }
  }
  if (speaks) fmt::print(stderr, "\r\033[K");
  // An algorithm named by the user that can serve no case is wrong usage.
  const auto served = [](const Row& row) { return row.proof.unable.empty(); };
  if (!arguments.algorithm.empty() && std::ranges::none_of(rows, served)) {
    refuse("{}", rows.back().proof.unable);
  }
  const auto fine = std::ranges::count_if(rows, [](const Row& row) { return row.proof.fine(); });
  if (!json.replaces_text()) {
    print_tables(rows, arguments.wide);
    const auto proved = std::ranges::count_if(rows, [](const Row& row) { return row.proof.proved(); });
    fmt::print("# {} proved, {} not served, {} not right\n", proved,
               rows.size() - static_cast<std::size_t>(std::ranges::count_if(rows, served)),
               static_cast<std::ptrdiff_t>(rows.size()) - fine);
  }
  return fine == static_cast<std::ptrdiff_t>(rows.size()) ? 0 : kRefused;
}

}  // namespace

void add_check(CLI::App& app) {
  CLI::App* check = app.add_subcommand("check", "Prove algorithms right, and count what they cost");
  const auto arguments = std::make_shared<CheckArguments>();
  check->footer(kCheckFooter);
  check->add_option("COLLECTIVE", arguments->collective, "all_reduce, broadcast, ... (default: all)");
  check->add_option("ALGORITHM", arguments->algorithm, "NAME[:PARAMETER=VALUE]... (default: all)");
  add_value(*check, "-n,--ranks", arguments->ranks, "RANKS",
            "How many, or a range as 2:8 (default: 2, 3 and 8)");
  add_value(*check, "--hosts", arguments->hosts, "LIST", "How many ranks on each host, in order: 3,2,3");
  add_value(*check, "--root", arguments->root, "RANK", "The root, of collectives that have one")
      ->capture_default_str();
  add_value(*check, "--count", arguments->count, "N",
            "Elements of the whole data (default: one for each chunk)")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 50));
  add_wide(*check, arguments->wide);
  add_json(*check, arguments->json, "an object a line");
  check->callback([arguments] {
    if (const int code = run_check(*arguments); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace kolo::cli
