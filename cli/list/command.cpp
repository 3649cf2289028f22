// kolo list: the algorithms and the transports there are.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "algorithms/algorithm.hpp"
#include "catalog/proof.hpp"
#include "commands.hpp"
#include "options.hpp"
#include "text/columns.hpp"
#include "text/json_lines.hpp"
#include "transport/transport.hpp"

namespace kolo::cli {
namespace {

constexpr const char* kListFooter = R"(Examples:
  kolo list                    all algorithms, and the transports
  kolo list all_reduce         those of one collective
  kolo list transports
  kolo list --json             an object a line, for programs

Steps and bytes are those of the busiest of N ranks; n: the bytes of the whole
data. 'kolo check' proves them, 'kolo draw NAME' shows the steps, and
KOLO_ALGORITHM=NAME chooses an algorithm for all calls.)";

constexpr const char* kTransports = "transports";

std::string list_entry(std::string_view name, std::string_view text, std::string_view costs) {
  constexpr std::size_t kTextAt = 24;
  const std::string indent(kTextAt, ' ');
  std::string result = wrapped(text, kTerminalWidth, fmt::format("  {:<{}}", name, kTextAt - 2), indent);
  if (!costs.empty()) result += wrapped(costs, kTerminalWidth, indent, indent);
  return result;
}

std::string json_of(const algorithms::Algorithm& algorithm, const std::string& steps,
                    const std::string& sent) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array(), purposes = names;
  for (const algorithms::Parameter& parameter : algorithm.parameters) {
    names.push_back(parameter.name);
    purposes.push_back(parameter.purpose);
  }
  return nlohmann::ordered_json{{"type", "algorithm"},
                                {"collective", schedule::name_of(algorithm.collective)},
                                {"name", algorithm.name},
                                {"purpose", algorithm.purpose},
                                {"use", algorithm.use},
                                {"source", algorithm.source},
                                {"parameters", names},
                                {"parameter_purposes", purposes},
                                {"steps", steps},
                                {"sent", sent},
                                {"rank_ordered", algorithm.rank_ordered},
                                {"in_shared_memory", algorithm.in_shared_memory.has_value()},
                                {"out_of_place_only", algorithm.out_of_place_only},
                                {"even_parts_only", algorithm.even_parts_only},
                                {"hosts_matter", !example_of(algorithm, 8).hosts.empty()}}
      .dump();
}

void list_algorithms(std::optional<schedule::Collective> only, JsonLines& json) {
  std::optional<schedule::Collective> last;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (only && algorithm.collective != *only) continue;
    const std::string_view collective = schedule::name_of(algorithm.collective);
    const algorithms::ClosedForm& form = algorithm.closed_form;
    const std::string steps = stated_text(form, form.steps), sent = stated_text(form, form.sent);
    json.write(json_of(algorithm, steps, sent));
    if (json.replaces_text()) continue;
    if (last != algorithm.collective) fmt::print("{}{}\n", last ? "\n" : "", collective);
    last = algorithm.collective;
    fmt::print("{}", list_entry(algorithm.name, algorithm.purpose,
                                fmt::format("steps: {}; sends: {}", steps, sent)));
  }
}

void list_transports(JsonLines& json) {
  if (!json.replaces_text()) fmt::print("{}\n", kTransports);
  for (const transport::TransportFactory& factory : transport::transport_factories()) {
    json.write(
        nlohmann::ordered_json{{"type", "transport"}, {"name", factory.name}, {"purpose", factory.purpose}}
            .dump());
    if (!json.replaces_text()) fmt::print("{}", list_entry(factory.name, factory.purpose, ""));
  }
}

void run_list(const std::string& what, const std::string& target) {
  JsonLines json(target);
  if (what != kTransports) {
    std::optional<schedule::Collective> only;
    if (!what.empty()) only = algorithms::require_collective(what).value_or_throw();
    list_algorithms(only, json);
    if (only) return;
    if (!json.replaces_text()) fmt::print("\n");
  }
  list_transports(json);
}

}  // namespace

void add_list(CLI::App& app) {
  CLI::App* list = app.add_subcommand("list", "List the algorithms and the transports");
  const auto what = std::make_shared<std::string>();
  const auto json = std::make_shared<std::string>();
  list->footer(kListFooter);
  list->add_option("COLLECTIVE", *what, "all_reduce, broadcast, ...; or transports (default: all)");
  add_json(*list, *json, "an object a line");
  list->callback([what, json] { run_list(*what, *json); });
}

}  // namespace kolo::cli
