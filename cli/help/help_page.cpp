#include <fmt/format.h>
#include <fmt/ranges.h>

#include "help/pages.hpp"
#include "text/columns.hpp"

namespace kolo::cli {
namespace {

constexpr std::size_t kTextAt = 24;

/// A term and what it is: side by side, or below each other if the term is long.
std::string entry(const std::string& term, const std::string& text) {
  const std::string indent(kTextAt, ' ');
  std::string head = "  " + term;
  if (head.size() + 2 > kTextAt) return head + "\n" + wrapped(text, kTerminalWidth, indent, indent);
  head.resize(kTextAt, ' ');
  return wrapped(text, kTerminalWidth, head, indent);
}

/// "-n, --ranks N"
std::string term_of(const OptionOutline& option) {
  if (option.names.empty()) return option.value + (option.is_repeated ? "..." : "");
  return fmt::format("{}{}{}", fmt::join(option.names, ", "), option.value.empty() ? "" : " ", option.value);
}

}  // namespace

std::string help_page(const Outline& outline) {
  std::string text = wrapped(outline.purpose, kTerminalWidth);
  text += "\nUsage: " + outline.usage + "\n";
  const auto section = [&](const std::string& title) { text += "\n" + title + ":\n"; };
  if (!outline.commands.empty()) section("Commands");
  for (const Outline& command : outline.commands) text += entry(command.word(), command.purpose);
  if (!outline.arguments.empty()) section("Arguments");
  for (const OptionOutline& argument : outline.arguments)
    text += entry(term_of(argument), argument.full_text());
  std::string group;
  for (const OptionOutline& option : outline.options) {
    if (option.group != group) section(option.group);
    group = option.group;
    text += entry(term_of(option), option.full_text());
  }
  return outline.footer.empty() ? text : text + "\n" + outline.footer + "\n";
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  return help_page(outline_of(*app));
}

}  // namespace kolo::cli
