#include "bench/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "algorithms/algorithm.hpp"
#include "bench/pattern.hpp"
#include "bench/peers.hpp"
#include "bench/sizes.hpp"
#include "launch/hosts.hpp"
#include "transport/transport.hpp"

namespace kolo::bench {
namespace {

// "an ELEMENT of a list": splits at commas, dropping empty parts.
std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::string dtype_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kDTypeCount; ++i) names.push_back(kolo::name_of(static_cast<DType>(i)));
  return fmt::format("{}", fmt::join(names, ", "));
}

// The algorithm must be registered for the collective.
std::string check_algorithm(Kind kind, const std::string& algorithm) {
  if (algorithm.empty()) return {};
  if (algorithm == kEveryAlgorithm) {
    return kind == Kind::send_recv ? "send_recv is a plain message and has no algorithms" : "";
  }
  Collective collective;
  if (kind == Kind::send_recv) return "send_recv is a plain message and has no algorithms";
  if (!parse_collective(name_of(kind), collective)) return fmt::format("{} has no algorithms", name_of(kind));
  const auto found = parse_algorithm(collective, algorithm);
  return found.ok() ? std::string() : found.status().message();
}

// These collectives run in place by default, as in training. The other ones need two buffers.
bool usually_in_place(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::broadcast || kind == Kind::reduce;
}

}  // namespace

std::optional<Settings> check_settings(const RawSettings& raw, std::string& error) {
  Settings settings;
  const auto refuse = [&](std::string message) {
    error = std::move(message);
    return std::nullopt;
  };
  if (!parse_kind(raw.collective, settings.kind)) {
    return refuse(
        fmt::format("unknown collective '{}'; there are {}", raw.collective, fmt::join(kind_names(), ", ")));
  }
  if (!parse_dtype(raw.dtype, settings.dtype)) {
    return refuse(fmt::format("unknown dtype '{}'; there are {}", raw.dtype, dtype_names()));
  }
  if (!parse_reduce_op(raw.reduction, settings.op)) {
    return refuse(
        fmt::format("unknown reduction '{}'; there are sum, product, min, max, average", raw.reduction));
  }
  settings.ranks =
      raw.ranks != 0 ? raw.ranks : std::max(2, static_cast<int>(std::thread::hardware_concurrency()));
  if (settings.ranks < 1 || settings.ranks > cli::kLargestJob)
    return refuse(fmt::format("--ranks {}: from 1 to {}", raw.ranks, cli::kLargestJob));
  if (settings.kind == Kind::send_recv && settings.ranks < 2)
    return refuse("send_recv needs at least 2 ranks");
  settings.sizes =
      settings.kind == Kind::barrier ? std::vector<std::uint64_t>{0} : parse_sizes(raw.sizes, error);
  if (settings.sizes.empty()) return std::nullopt;
  settings.transport = raw.transport;
  for (const auto& name : split_names(raw.transport)) {
    if (find_transport(name) != nullptr) continue;
    return refuse(
        fmt::format("unknown transport '{}'; there are {}", name, fmt::join(transport_names(), ", ")));
  }
  if (raw.memory != "shared" && raw.memory != "private") {
    return refuse(fmt::format("unknown memory '{}'; there are shared, private", raw.memory));
  }
  settings.shared_memory = raw.memory == "shared";
  settings.algorithm = raw.algorithm;
  if (const auto problem = check_algorithm(settings.kind, raw.algorithm); !problem.empty())
    return refuse(problem);
  if (raw.iterations < 0 || raw.warmup < 0) return refuse("--iterations and --warmup cannot be negative");
  if (raw.tensors < 1) return refuse("--tensors: at least 1");
  if (raw.tensors > 1 && settings.kind == Kind::send_recv)
    return refuse("--tensors needs a collective: send_recv measures round trips");
  if (raw.tensors > 1 && raw.algorithm == kEveryAlgorithm)
    return refuse("--algorithm all measures one tensor at a time, without --tensors");
  settings.tensors = raw.tensors;
  settings.policy.iterations = raw.iterations;
  settings.policy.warmup = raw.warmup;
  settings.in_place = raw.in_place.value_or(usually_in_place(settings.kind));
  settings.json = raw.json;
  settings.table = raw.table;
  if (!raw.table.empty() && raw.algorithm != kEveryAlgorithm)
    return refuse("--learn goes with --algorithm all");
  if (!raw.table.empty() && settings.ranks < 2)
    return refuse("--learn needs at least 2 ranks: one has nothing to send");
  if (!parse_wire(raw.wire, settings.wire)) {
    return refuse(
        fmt::format("unknown wire format '{}'; there are native, bfloat16, float16, int8", raw.wire));
  }
  const bool is_sum = settings.op == ReduceOp::sum || settings.op == ReduceOp::average;
  if (settings.wire != Wire::native &&
      (settings.kind != Kind::all_reduce || settings.dtype != DType::float32 || !is_sum)) {
    return refuse("--wire is for all_reduce of float32, sum or average");
  }
  if (settings.wire != Wire::native && (raw.algorithm == kEveryAlgorithm || !raw.against.empty())) {
    return refuse("--wire compares with kolo's own float32, without --algorithm all and --against");
  }
  if (raw.link_mbit < 0) return refuse("--link cannot be negative");
  settings.link_mbit = raw.link_mbit;
  settings.against = split_names(raw.against);
  for (const auto& name : settings.against) {
    if (find_peer_kind(name) != nullptr) continue;
    std::vector<std::string_view> names;
    for (const PeerKind& kind : peer_kinds()) names.push_back(kind.name);
    return refuse(fmt::format("unknown peer '{}'; there are {}", name, fmt::join(names, ", ")));
  }
  const auto op = is_reducing(settings.kind) ? std::optional(settings.op) : std::nullopt;
  if (auto problem = Pattern::limitation(settings.dtype, op, settings.ranks); !problem.empty())
    return refuse(problem);
  return settings;
}

}  // namespace kolo::bench
