#include "help/outline.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "algorithms/algorithm.hpp"

namespace kolo::cli {
namespace {

/// "NAME:{html,svg,text}" as CLI11 writes a type and its checks: the name, and the choices.
void read_type(const std::string& type, OptionOutline& option) {
  option.value = type.substr(0, type.find(':'));
  const std::size_t begin = type.find('{'), end = type.rfind('}');
  if (begin == type.npos || end == type.npos) return;
  std::string rest = type.substr(begin + 1, end - begin - 1);
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    option.choices.push_back(rest.substr(0, comma));
    rest.erase(0, comma + 1);
  }
}

OptionOutline outline_of(const CLI::Option& option) {
  OptionOutline result;
  result.text = option.get_description();
  result.group = option.get_group();
  result.is_required = option.get_required();
  result.is_repeated = option.get_expected_max() > 1;
  const bool is_flag = option.get_items_expected_max() == 0;
  if (!is_flag) read_type(option.get_type_name(), result);
  if (!option.nonpositional()) {
    result.value = option.get_single_name();
    return result;
  }
  for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
  result.fallback = option.get_default_str();
  if (result.fallback.size() > 1 && result.fallback.front() == '[') {  // of a list
    result.fallback.pop_back();
    result.fallback.erase(0, 1);
  }
  return result;
}

std::string usage_of(const Outline& outline) {
  std::string usage = outline.name;
  if (!outline.options.empty()) usage += " [OPTIONS]";
  for (const OptionOutline& argument : outline.arguments) {
    const std::string word = argument.value + (argument.is_repeated ? "..." : "");
    usage += argument.is_required ? " " + word : " [" + word + "]";
  }
  if (outline.name == "kolo run") usage += " [--] PROGRAM [ARGUMENTS]";
  if (!outline.commands.empty()) usage += outline.arguments.empty() ? " COMMAND" : " | COMMAND";
  return usage;
}

Outline outline_below(const CLI::App& app, const std::string& parent) {
  Outline outline;
  outline.name = parent.empty() ? app.get_name() : parent + " " + app.get_name();
  outline.purpose = app.get_description();
  outline.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->nonpositional() ? outline.options : outline.arguments).push_back(outline_of(*option));
  }
  // --help is the first, and is looked for last.
  std::ranges::stable_partition(outline.options, [](const OptionOutline& option) {
    return option.group == "Options" && option.names.back() != "--help";
  });
  std::ranges::stable_partition(outline.options,
                                [](const OptionOutline& option) { return option.group == "Options"; });
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) outline.commands.push_back(outline_below(*command, outline.name));
  }
  outline.usage = usage_of(outline);
  return outline;
}

}  // namespace

std::string OptionOutline::full_text() const {
  std::string more = choices.empty() ? "" : fmt::format("{}", fmt::join(choices, ", "));
  if (is_required && !names.empty()) more += std::string(more.empty() ? "" : "; ") + "required";
  if (!fallback.empty()) more += std::string(more.empty() ? "" : "; ") + "default: " + fallback;
  return more.empty() ? text : text + " (" + more + ")";
}

std::string Outline::word() const {
  return name.substr(name.rfind(' ') + 1);
}

Outline outline_of(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  std::string names;
  for (; parent != nullptr; parent = parent->get_parent())
    names = parent->get_name() + (names.empty() ? "" : " ") + names;
  return outline_below(app, names);
}

std::vector<std::string> known_values(const std::string& value) {
  std::vector<std::string> names;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (value == "COLLECTIVE") names.emplace_back(schedule::name_of(algorithm.collective));
    if (value == "ALGORITHM") names.emplace_back(algorithm.name);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace kolo::cli
