// Names that the pages about the core take for granted.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/kolo.hpp"

extern kolo::Communicator communicator;
extern std::vector<float> gradients;

// docs/adding.md: the parts of a command that its block does not show.
struct CountArguments {
  int ranks = 8;
  std::string json;
};
CLI::Option* add_json(CLI::App& command, std::string& target, const std::string& what);
template <typename Value>
CLI::Option* add_value(CLI::App& command, const char* names, Value& target, const char* type,
                       const std::string& what);
inline constexpr const char* kCountExamples = "";
int run_count(const CountArguments& arguments);
