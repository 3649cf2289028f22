#include "algorithms/arguments.hpp"

#include <charconv>

namespace kolo::algorithms {
namespace {

/// Cuts the number off the start of `text`; -1 if there is none or it is too large.
int take_number(std::string_view& text) {
  int value = -1;
  if (text.empty() || text.front() < '0' || text.front() > '9') return -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

std::string value_fault(ParameterKind kind, std::string_view value) {
  std::string_view rest = value;
  switch (kind) {
    case ParameterKind::number:
      return take_number(rest) >= 1 && rest.empty() ? "" : "it must be a number from 1";
    case ParameterKind::numbers:
      while (take_number(rest) >= 0) {
        if (rest.empty()) return {};
        if (rest.front() != '-') break;
        rest.remove_prefix(1);
      }
      return "it must be numbers joined by '-', as in 0-2-1";
    case ParameterKind::name:
      break;
  }
  return value.empty() ? "it must be an algorithm's name" : "";
}

std::string text_of(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : "-") + std::to_string(number);
  return text;
}

void Arguments::set(std::string_view name, std::string_view value) {
  values_.insert_or_assign(std::string(name), std::string(value));
}

int Arguments::number(std::string_view name, int otherwise) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return otherwise;
  std::string_view text = found->second;
  return take_number(text);
}

std::vector<int> Arguments::numbers(std::string_view name, std::vector<int> otherwise) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return otherwise;
  std::vector<int> result;
  std::string_view text = found->second;
  while (true) {
    result.push_back(take_number(text));
    if (text.empty()) return result;
    text.remove_prefix(1);
  }
}

std::string Arguments::word(std::string_view name, std::string_view otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(otherwise) : found->second;
}

std::string Arguments::text() const {
  std::string result;
  for (const auto& [name, value] : values_) result += ":" + name + "=" + value;
  return result;
}

}  // namespace kolo::algorithms
