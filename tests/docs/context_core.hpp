// Names that the pages about the core take for granted.
#pragma once

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/kolo.hpp"

extern kolo::Communicator communicator;
extern std::vector<float> gradients;

// docs/running.md: the caller's key-value service.
struct KeyValueClient {
  void put(const std::string& key, const std::string& value);
  std::string await(const std::string& key, std::chrono::nanoseconds timeout);
  std::int64_t add(const std::string& key, std::int64_t amount);
  std::vector<std::string> missing(const std::vector<std::string>& keys, std::chrono::nanoseconds timeout);
  void erase(const std::string& key);
};

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
