// Arguments: values of an algorithm's parameters, by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::algorithms {

/// Kinds of values: a number from 1, several numbers joined by '-' (from 0), or an algorithm's name.
enum class ParameterKind : std::uint8_t { number, numbers, name };

/// A parameter of an algorithm.
struct Parameter {
  std::string_view name;     ///< "radix"
  std::string_view purpose;  ///< one line, human-readable, with the default
  ParameterKind kind = ParameterKind::number;
};

/// Why `value` is not of that kind; empty if it is.
std::string value_fault(ParameterKind kind, std::string_view value);

/// The text of several numbers: "0-2-1".
std::string text_of(const std::vector<int>& numbers);

/// Values by parameter name. A value.
class Arguments {
 public:
  /// `value` must be valid: value_fault() is empty.
  void set(std::string_view name, std::string_view value);

  bool empty() const { return values_.empty(); }
  /// `otherwise` if the argument is not given; also for the next two.
  int number(std::string_view name, int otherwise) const;
  std::vector<int> numbers(std::string_view name, std::vector<int> otherwise = {}) const;
  std::string word(std::string_view name, std::string_view otherwise) const;
  /// ":radix=4", in alphabetical order; empty if there are no arguments.
  std::string text() const;

  bool operator==(const Arguments&) const = default;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace kolo::algorithms
