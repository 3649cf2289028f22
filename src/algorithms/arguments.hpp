// Arguments: values of an algorithm's parameters, by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kolo {

/// What a parameter's value may be: a number from 1, several joined by '-' (from 0), or an algorithm's name.
enum class ParameterKind : std::uint8_t { number, numbers, name };

/// A parameter that an algorithm has.
struct Parameter {
  std::string_view name;     ///< "radix"
  std::string_view purpose;  ///< one line for people, with what holds where it is not given
  ParameterKind kind = ParameterKind::number;
};

/// Why `value` cannot be a value of that kind; empty where it can.
std::string value_fault(ParameterKind kind, std::string_view value);

/// Values by parameter name. A value.
class Arguments {
 public:
  /// `value` must have no fault.
  void set(std::string_view name, std::string_view value);

  bool empty() const { return values_.empty(); }
  /// `otherwise` where the argument is not given; so below.
  int number(std::string_view name, int otherwise) const;
  std::vector<int> numbers(std::string_view name, std::vector<int> otherwise = {}) const;
  std::string word(std::string_view name, std::string_view otherwise) const;
  /// ":radix=4", in alphabetical order; empty where there is none.
  std::string text() const;

  bool operator==(const Arguments&) const = default;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace kolo
