// The table that a training program ends with.
#pragma once

#include <string>
#include <utility>

#include "support/communication.hpp"

namespace support {

/// "635,196"; with a decimal where it is no whole number.
std::string grouped(double value);

class SummaryTable {
 public:
  void row(const std::string& name, const std::string& value, const std::string& remark = {});
  void rows(const Communication& communication);
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace support
