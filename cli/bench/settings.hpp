// Settings: the checked arguments of `kolo bench`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/case.hpp"
#include "bench/loop.hpp"
#include "bench/neighbours.hpp"

namespace kolo::bench {

/// The name that stands for all algorithms.
inline constexpr std::string_view kEveryAlgorithm = "all";

/// What needs no parsing.
struct PlainSettings {
  int ranks = 0;                ///< 0, of RawSettings alone: one per core, at least 2
  double link_mbit = 0;         ///< TCP bandwidth of a host's link; 0: unknown
  std::string device = "host";  ///< whose memory the calls get: "cuda": GPUs in turns, "cuda:1": the second
  std::string algorithm;        ///< empty: kolo's choice; "all": every one, see grid.hpp
  std::string transport;        ///< empty: kolo's choice
  int tensors = 1;
  double compute_ms = 0;  ///< as in Case
  int steps = 1;          ///< as in Case
  Neighbourhood neighbours;
  Policy policy;
  std::string json;       ///< where JSON lines go, as cli::JsonLines has it
  bool append = false;    ///< JSON lines follow those of other settings
  bool wide = false;      ///< tables may be wider than a terminal
  std::string table;      ///< file of the tuning table that stores the result; empty: none
  bool progress = false;  ///< show progress on standard error
  std::string part;       ///< of `kolo tune`, as Part reads it; empty: this is all
};

struct Settings : PlainSettings {
  Kind kind = Kind::all_reduce;
  std::vector<std::uint64_t> sizes;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  Wire wire = Wire::native;
  bool shared_memory = true;
  bool in_place = true;
  std::vector<std::string> against;  ///< names of peers
  bool is_on_gpu = false;
  std::optional<int> gpu;  ///< the only one

  std::string host_memory() const { return shared_memory ? "shared" : "private"; }
  std::string memory_name() const { return is_on_gpu ? device : host_memory(); }
};

/// The settings as the user typed them.
struct RawSettings : PlainSettings {
  std::string collective, sizes = "8,1K,64K,1M,16M,64M", dtype = "float32", reduction = "sum",
                          memory = "shared", wire = "native", against;
  std::optional<bool> in_place;
};

/// Throws InvalidArgumentError, which names the mistake and the possible values.
Settings check_settings(const RawSettings& raw);

/// The names that --dtype and --reduction take.
std::vector<std::string_view> dtype_names();
std::vector<std::string_view> reduction_names();

}  // namespace kolo::bench
