#include "options.hpp"

#include "base/cores.hpp"

namespace kolo::cli {
namespace {

bool names_a_file(const std::string& argument) {
  return argument == "-" || (!argument.starts_with('-') && argument.find_first_of("./") != argument.npos);
}

}  // namespace

CLI::Option* add_json(CLI::App& command, std::string& target, const std::string& what) {
  return command
      .add_option("--json", target, "Write JSON, " + what + ": to FILE, or without it in place of the text")
      ->type_name("[FILE]");
}

CLI::Option* add_wide(CLI::App& command, bool& wide) {
  return command.add_flag("--wide", wide, "Show all columns, however wide");
}

CLI::Option* accept_auto(CLI::Option* ranks) {
  // transform() places it before all checks.
  return ranks->transform(CLI::Validator(
      [](std::string& text) {
        if (text == "auto") text = std::to_string(usable_cores().count());
        return std::string();
      },
      "", "auto"));
}

void normalize(std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "-np") arguments[i] = "-n";
    if (arguments[i] != "--json") continue;
    if (i + 1 < arguments.size() && names_a_file(arguments[i + 1])) {
      arguments[i] += "=" + arguments[i + 1];
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    } else {
      arguments[i] += "=-";
    }
  }
}

}  // namespace kolo::cli
