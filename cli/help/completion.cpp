#include "help/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kolo::cli {

std::string values_of(const OptionOutline& option) {
  const std::vector<std::string> values =
      option.choices.empty() ? known_values(option.value) : option.choices;
  return fmt::format("{}", fmt::join(values, " "));
}

bool takes_a_file(const OptionOutline& option) {
  return option.value.find("FILE") != option.value.npos || option.value == "PATH" || option.value == "FOLDER";
}

bool runs_a_program(const Outline& command) {
  return command.usage.find("PROGRAM") != command.usage.npos;
}

}  // namespace kolo::cli
