// The algorithms and arguments that tests run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace kolo::test {

/// Arguments to test besides each algorithm without arguments.
inline constexpr std::string_view kConfigured[] = {
    "ring:order=3-0-2-1",
    "ring:order=4-2-0-1-5-3",
    "bidirectional_ring:order=4-2-0-1-3",
    "butterfly:degrees=2-3",
    "butterfly:degrees=4-2",
    "butterfly:degrees=2-1-4-3",
    "butterfly:degrees=4-4-4",
    "parameter_server:servers=1",
    "parameter_server:servers=2",
    "parameter_server:servers=5",
    "parameter_server:spared=0",
    "parameter_server:spared=3:chunks=4",
    "parameter_server:spared=1-4:chunks=3",
    "parameter_server:spared=0-2:servers=2:chunks=5",
    "torus:rows=1",
    "torus:rows=2",
    "torus:rows=8",
    "k_nomial:radix=2",
    "k_nomial:radix=3",
    "k_nomial:radix=9",
    "chain:chunks=1",
    "chain:chunks=7",
    "double_tree:chunks=1",
    "double_tree:chunks=3",
    "hierarchical:inside=direct:across=central",
    "hierarchical:inside=k_nomial:across=binomial",
    "hierarchical:inside=chain+chunks=3:across=double_tree",
    "hierarchical:across=parameter_server+chunks=2+spared=1",
};

/// The algorithm without arguments, and with those of the arguments above that it accepts.
inline std::vector<algorithms::ConfiguredAlgorithm> variants(const algorithms::Algorithm& algorithm) {
  std::vector<algorithms::ConfiguredAlgorithm> result = {{&algorithm}};
  for (const std::string_view text : kConfigured) {
    const auto parsed = algorithms::parse_algorithm(algorithm.collective, text);
    if (parsed.ok() && parsed.value().algorithm == &algorithm) result.push_back(parsed.value());
  }
  return result;
}

/// All variants of all algorithms.
inline std::vector<algorithms::ConfiguredAlgorithm> all_variants() {
  std::vector<algorithms::ConfiguredAlgorithm> result;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    for (algorithms::ConfiguredAlgorithm& variant : variants(algorithm)) result.push_back(std::move(variant));
  }
  return result;
}

/// A name for a test case: "all_reduce_k_nomial_radix_4".
inline std::string test_name(const algorithms::ConfiguredAlgorithm& variant) {
  std::string name = std::string(schedule::name_of(variant.algorithm->collective)) + "_" + variant.name();
  for (char& c : name) {
    if (c == ':' || c == '=' || c == '-' || c == '+') c = '_';
  }
  return name;
}

}  // namespace kolo::test
