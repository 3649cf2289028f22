// Programs that run to their end, and what a test expects of kolo's own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"

namespace kolo::test {

struct ProgramOutcome {
  int code = -1;
  std::string out, err;
};

/// `join_streams`: standard error is in `out` too.
inline ProgramOutcome run_program(std::vector<std::string> arguments,
                                  const std::map<std::string, std::string>& variables = {},
                                  bool join_streams = false) {
  Command command(std::move(arguments), variables, join_streams);
  const int code = command.finish();
  return {code, command.out(), command.err()};
}

/// kolo, without the user's tuning table.
inline ProgramOutcome run_kolo(std::vector<std::string> arguments,
                               std::map<std::string, std::string> variables = {}, bool join_streams = false) {
  arguments.insert(arguments.begin(), KOLO_PROGRAM);
  variables.emplace("KOLO_TABLE", "none");
  return run_program(std::move(arguments), variables, join_streams);
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Nothing but one line, an error with this text.
inline void expect_usage_error(const ProgramOutcome& outcome, const std::string& text) {
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(has(outcome.err, text)) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
}
inline void expect_usage_error(const std::vector<std::string>& arguments, const std::string& text) {
  expect_usage_error(run_kolo(arguments), text);
}

}  // namespace kolo::test
