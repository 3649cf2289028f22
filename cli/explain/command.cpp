// kolo explain: what docs/trouble.md says of an error.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "kolo/trouble.hpp"
#include "text/refuse.hpp"

namespace kolo::cli {
namespace {

constexpr const char* kExplainFooter = R"(Examples:
  kolo explain K104                      what the errors with this code mean,
                                         and what to do
  kolo explain no store answered at a:1  the same, by the text of the error)";

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* explain = app.add_subcommand("explain", "Tell what an error means, and what to do");
  const auto words = std::make_shared<std::vector<std::string>>();
  explain->footer(kExplainFooter);
  explain->add_option("ERROR", *words, "The code at its end, or its text")->required();
  explain->callback([words] {
    const std::string error = fmt::format("{}", fmt::join(*words, " "));
    const std::string entry = explain_error(error);
    if (entry.empty()) refuse("there is no entry for '{}'", error);
    fmt::print("{}", entry);
  });
}

}  // namespace kolo::cli
