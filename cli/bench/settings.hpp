// Settings: the checked arguments of `kolo bench`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/case.hpp"
#include "bench/loop.hpp"

namespace kolo::bench {

/// The name that stands for all algorithms.
inline constexpr std::string_view kEveryAlgorithm = "all";

struct Settings {
  Kind kind = Kind::all_reduce;
  int ranks = 2;
  std::vector<std::uint64_t> sizes;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  Wire wire = Wire::native;
  double link_mbit = 0;   ///< TCP bandwidth of a host's link; 0: unknown
  std::string algorithm;  ///< empty: kolo's choice; "all": every one, see grid.hpp
  std::string transport;  ///< empty: kolo's choice
  bool shared_memory = true;
  bool in_place = true;
  int tensors = 1;
  Policy policy;
  std::string json;                  ///< file to write; empty: none
  std::vector<std::string> against;  ///< names of peers
  bool progress = false;             ///< show progress on standard error
  std::string table;                 ///< file of the tuning table that stores the result; empty: none
};

/// The settings as the user typed them.
struct RawSettings {
  std::string collective, sizes = "8,1K,64K,1M,16M,64M", dtype = "float32", reduction = "sum", algorithm,
                          transport, memory = "shared", wire = "native", against;
  double link_mbit = 0;
  int ranks = 0;  ///< 0: one per core, at least 2
  std::optional<bool> in_place;
  int tensors = 1, iterations = 0, warmup = 3;
  std::string json, table;
};

/// Checks all that can be checked before a rank starts. On a mistake, `error` names it and the possible
/// values.
std::optional<Settings> check_settings(const RawSettings& raw, std::string& error);

}  // namespace kolo::bench
