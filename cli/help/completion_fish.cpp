#include <fmt/format.h>

#include "help/completion.hpp"

namespace kolo::cli {
namespace {

/// Within '...' of fish.
std::string quoted_for_fish(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return "'" + result + "'";
}

/// The condition under which a command's words are offered.
std::string condition_of(const Outline& command) {
  std::string words = command.name.substr(std::min(command.name.find(' ') + 1, command.name.size()));
  if (command.name.find(' ') == command.name.npos) return "__fish_use_subcommand";
  std::string text;
  while (!words.empty()) {
    const std::string word = words.substr(0, words.find(' '));
    words.erase(0, word.size() + 1);
    text += (text.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
  }
  if (!command.commands.empty()) {
    text += "; and not __fish_seen_subcommand_from";
    for (const Outline& below : command.commands) text += " " + below.word();
  }
  return text;
}

std::string value_of(const OptionOutline& option) {
  if (option.value.empty()) return "";
  if (const std::string values = values_of(option); !values.empty())
    return " -x -a " + quoted_for_fish(values);
  return takes_a_file(option) ? " -r -F" : " -x";
}

std::string lines_of(const Outline& command) {
  const std::string head = "complete -c kolo -n " + quoted_for_fish(condition_of(command));
  std::string text;
  for (const OptionOutline& option : command.options) {
    text += head;
    for (const std::string& name : option.names)
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    text += value_of(option) + " -d " + quoted_for_fish(option.text) + "\n";
  }
  for (const OptionOutline& argument : command.arguments) {
    if (const std::string values = values_of(argument); !values.empty())
      text += head + " -a " + quoted_for_fish(values) + "\n";
    if (takes_a_file(argument)) text += head + " -F\n";
  }
  if (runs_a_program(command)) text += head + " -F -a '(__fish_complete_command)'\n";
  for (const Outline& below : command.commands)
    text += head + " -a " + below.word() + " -d " + quoted_for_fish(below.purpose) + "\n";
  for (const Outline& below : command.commands) text += lines_of(below);
  return text;
}

}  // namespace

std::string fish_completion(const Outline& kolo) {
  return "# fish completion for kolo, written by 'kolo completion fish'.\ncomplete -c kolo -f\n" +
         lines_of(kolo);
}

}  // namespace kolo::cli
