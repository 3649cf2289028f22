#include <fmt/format.h>
#include <fmt/ranges.h>

#include "help/completion.hpp"

namespace kolo::cli {
namespace {

std::string names_of(const std::vector<OptionOutline>& options) {
  std::string names;
  for (const OptionOutline& option : options)
    for (const std::string& name : option.names) names += (names.empty() ? "" : " ") + name;
  return names;
}

/// A case for each option that takes a value.
std::string value_cases(const std::vector<OptionOutline>& options) {
  std::string text;
  for (const OptionOutline& option : options) {
    if (option.value.empty()) continue;
    const std::string values = values_of(option);
    const std::string action = !values.empty()        ? fmt::format("words '{}'", values)
                               : takes_a_file(option) ? "files"
                                                      : "true";
    text += fmt::format("        {}) _kolo_{}; return ;;\n", fmt::join(option.names, "|"), action);
  }
  return text;
}

std::string command_case(const Outline& command) {
  std::string words = names_of(command.options);
  for (const Outline& below : command.commands) words += " " + below.word();
  std::string others;
  for (const OptionOutline& argument : command.arguments) {
    const std::string values = values_of(argument);
    if (!values.empty()) words += " " + values;
    if (takes_a_file(argument)) others = "_kolo_files";
  }
  std::string text = fmt::format("    '{}')\n", command.name);
  if (const std::string cases = value_cases(command.options); !cases.empty())
    text += "      case $previous in\n" + cases + "      esac\n";
  text += fmt::format("      _kolo_words '{}'\n", words);
  if (runs_a_program(command)) others = "COMPREPLY+=($(compgen -c -- \"$current\")); _kolo_files";
  if (!others.empty()) text += fmt::format("      [[ $current == -* ]] || {{ {}; }}\n", others);
  text += "      ;;\n";
  for (const Outline& below : command.commands) text += command_case(below);
  return text;
}

std::string paths_of(const Outline& command) {
  std::string text;
  for (const Outline& below : command.commands) text += "'" + below.name + "'|" + paths_of(below);
  return text;
}

}  // namespace

std::string bash_completion(const Outline& kolo) {
  std::string paths = paths_of(kolo);
  paths.pop_back();
  return R"(# bash completion for kolo, written by 'kolo completion bash'.
_kolo_words() { COMPREPLY+=($(compgen -W "$1" -- "$current")); }
_kolo_files() {
  compopt -o filenames 2>/dev/null
  local IFS=$'\n'
  COMPREPLY+=($(compgen -f -- "$current"))
}
_kolo_true() { :; }
_kolo() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=kolo i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
      )" +
         paths +
         R"() command+=" ${COMP_WORDS[i]}" ;;
    esac
  done
  case $command in
)" + command_case(kolo) +
         R"(  esac
}
complete -F _kolo kolo
)";
}

}  // namespace kolo::cli
