#include <fmt/format.h>

#include <algorithm>

#include "help/pages.hpp"

namespace kolo::cli {
namespace {

const OptionOutline* find_option(const Outline& command, const std::string& name) {
  for (const OptionOutline& option : command.options) {
    if (std::ranges::find(option.names, name) != option.names.end()) return &option;
  }
  return nullptr;
}

/// Whether the word is the program of `kolo run`; its arguments follow.
bool begins_program(const Outline& command, const std::string& word) {
  return command.usage.find("PROGRAM") != command.usage.npos && !word.starts_with('-');
}

/// `before`: number of words before the program, without "kolo".
std::string program_line(std::size_t before) {
  return fmt::format(":program\t{}\n", before + 1);
}

/// The lines of what begins with `current`.
class Offers {
 public:
  explicit Offers(std::string current) : current_(std::move(current)) {}

  void add(const std::string& word, const std::string& text) {
    if (word.starts_with(current_)) lines_ += word + "\t" + text + "\n";
  }

  void add_values(const OptionOutline& option) {
    for (const std::string& value : option.choices.empty() ? known_values(option.value) : option.choices)
      add(value, option.value);
    const bool is_file = option.value.find("FILE") != option.value.npos || option.value == "PATH";
    if (is_file && !current_.starts_with('-')) lines_ += ":files\n";
  }

  std::string lines() const { return lines_; }

 private:
  const std::string current_;
  std::string lines_;
};

}  // namespace

std::string completions(const Outline& kolo, const std::vector<std::string>& words) {
  const Outline* command = &kolo;
  const OptionOutline* option = nullptr;  // whose value comes next
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const bool is_value = option != nullptr;
    if (!is_value && begins_program(*command, words[i])) return program_line(i);
    const auto below = std::ranges::find(command->commands, words[i], &Outline::word);
    option = is_value ? nullptr : find_option(*command, words[i]);
    if (option != nullptr && option->value.empty()) option = nullptr;
    if (!is_value && below != command->commands.end()) command = &*below;
  }
  const std::string current = words.empty() ? "" : words.back();
  Offers offers(current);
  if (option != nullptr) {
    offers.add_values(*option);
    return offers.lines();
  }
  for (const OptionOutline& one : command->options)
    for (const std::string& name : one.names) offers.add(name, one.text);
  for (const Outline& below : command->commands) offers.add(below.word(), below.purpose);
  for (const OptionOutline& argument : command->arguments) offers.add_values(argument);
  return offers.lines() + (begins_program(*command, current) ? program_line(words.size() - 1) : "");
}

}  // namespace kolo::cli
