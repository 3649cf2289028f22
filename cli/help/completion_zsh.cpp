#include <fmt/format.h>
#include <fmt/ranges.h>

#include "help/completion.hpp"

namespace kolo::cli {
namespace {

/// Within '...' of zsh, in a specification of _arguments.
std::string zsh_quoted(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return result;
}

std::string action_of(const OptionOutline& option) {
  if (const std::string values = values_of(option); !values.empty()) return "(" + values + ")";
  return takes_a_file(option) ? "_files" : " ";
}

std::string function_name(const Outline& command) {
  std::string name = "_" + command.name;
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
}

std::string specification(const OptionOutline& option) {
  const std::string value =
      option.value.empty() ? "" : ":" + zsh_quoted(option.value) + ":" + action_of(option);
  const std::string text = "'[" + zsh_quoted(option.text) + "]" + value + "'";
  if (option.names.empty()) {
    return fmt::format("'{}:{}:{}'",
                       option.is_repeated   ? "*"
                       : option.is_required ? ""
                                            : ":",
                       zsh_quoted(option.value), action_of(option));
  }
  if (option.names.size() == 1) return (option.is_repeated ? "'*'" : "") + option.names.front() + text;
  return fmt::format("'({})'{{{}}}{}", fmt::join(option.names, " "), fmt::join(option.names, ","), text);
}

std::string function_of(const Outline& command) {
  std::string text = function_name(command) + "() {\n";
  if (!command.commands.empty()) text += "  local state line\n";
  text += "  _arguments -s";
  for (const OptionOutline& option : command.options) text += " \\\n    " + specification(option);
  if (command.commands.empty()) {
    for (const OptionOutline& argument : command.arguments) text += " \\\n    " + specification(argument);
    if (runs_a_program(command)) text += " \\\n    '(-):PROGRAM:_command_names -e' '*::ARGUMENTS:_normal'";
    text += "\n}\n";
    return text;
  }
  text +=
      " \\\n    '1: :->command' '*:: :->rest'\n  case $state in\n    command)\n      local -a commands=(\n";
  for (const Outline& below : command.commands)
    text += fmt::format("        '{}:{}'\n", below.word(), zsh_quoted(below.purpose));
  text += "      )\n      _describe command commands\n";
  for (const OptionOutline& argument : command.arguments) {
    if (const std::string values = values_of(argument); !values.empty())
      text += fmt::format("      compadd -- {}\n", values);
  }
  text += "      ;;\n    rest)\n      case $line[1] in\n";
  for (const Outline& below : command.commands)
    text += fmt::format("        {}) {} ;;\n", below.word(), function_name(below));
  text += "      esac\n      ;;\n  esac\n}\n";
  for (const Outline& below : command.commands) text += function_of(below);
  return text;
}

}  // namespace

std::string zsh_completion(const Outline& kolo) {
  // The last lines serve both ways in: as a file in fpath, and read by `source`.
  return "#compdef kolo\n# zsh completion for kolo, written by 'kolo completion zsh'.\n" + function_of(kolo) +
         "if [[ $funcstack[1] == _kolo ]]; then _kolo \"$@\"; else compdef _kolo kolo; fi\n";
}

}  // namespace kolo::cli
