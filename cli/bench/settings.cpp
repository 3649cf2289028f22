#include "bench/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "algorithms/algorithm.hpp"
#include "base/cores.hpp"
#include "base/similar.hpp"
#include "bench/pattern.hpp"
#include "bench/peers.hpp"
#include "launch/hosts.hpp"
#include "text/refuse.hpp"
#include "text/size.hpp"
#include "transport/transport.hpp"

namespace kolo::bench {
namespace {

constexpr int kMostNeighbours = 1024;
constexpr double kMostComputeMs = 10'000;
constexpr int kMostBlipUs = 10'000'000;

using namespace std::string_view_literals;
constexpr std::array kMemories = {"shared"sv, "private"sv};
constexpr std::array kWires = {"native"sv, "bfloat16"sv, "float16"sv, "int8"sv};

// The parts between commas that are not empty.
std::vector<std::string> split_names(std::string_view text) {
  const std::vector<std::string_view> parts = cli::split(text, ',');
  std::vector<std::string> names(parts.begin(), parts.end());
  std::erase(names, "");
  return names;
}

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (const schedule::CollectiveTraits& traits : schedule::kCollectives) names.push_back(traits.name);
  return names;
}

void refuse_if(bool is_wrong, const std::string& why) {
  if (is_wrong) cli::refuse("{}", why);
}

template <typename Names>
[[noreturn]] void refuse_name(std::string_view what, std::string_view name, const Names& known) {
  const std::vector<std::string_view> names(known.begin(), known.end());
  cli::refuse("unknown {} '{}'; there are {}{}", what, name, fmt::join(names, ", "),
              did_you_mean(name, names));
}

void check_device(Settings& settings) {
  const std::string& name = settings.device;
  if (name == "host") return;
  settings.is_on_gpu = true;
  std::int16_t gpu = 0;
  const char* const begin = name.data() + std::min<std::size_t>(name.size(), 5);
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), gpu);
  const bool is_numbered = name.starts_with("cuda:") && error == std::errc() && *end == '\0' && gpu >= 0;
  if (is_numbered) settings.gpu = gpu;
  refuse_if(!is_numbered && name != "cuda",
            fmt::format("unknown device '{}'; there are host, cuda, cuda:N", name));
  refuse_if(settings.kind == Kind::barrier, "barrier has no data for a device");
}

// The algorithm must be registered for the collective.
void check_algorithm(Kind kind, const std::string& algorithm) {
  if (algorithm.empty()) return;
  refuse_if(kind == Kind::send_recv, "send_recv is a plain message and has no algorithms");
  if (algorithm != kEveryAlgorithm) algorithms::parse_algorithm(kind, algorithm).value_or_throw();
}

// These collectives run in place by default, as in training. The other ones need two buffers.
bool usually_in_place(Kind kind) {
  return schedule::traits_of(kind).input == schedule::Parts::chunks;
}

template <typename Enum>
std::vector<std::string_view> first_names(int count) {
  std::vector<std::string_view> names;
  for (int i = 0; i < count; ++i) names.push_back(kolo::name_of(static_cast<Enum>(i)));
  return names;
}

}  // namespace

std::vector<std::string_view> dtype_names() {
  return first_names<DType>(kDTypeCount);
}

std::vector<std::string_view> reduction_names() {
  return first_names<ReduceOp>(kReduceOpCount);
}

Settings check_settings(const RawSettings& raw) {
  Settings settings;
  static_cast<PlainSettings&>(settings) = raw;
  if (!schedule::parse_collective(raw.collective, settings.kind))
    refuse_name("collective", raw.collective, collective_names());
  if (!parse_dtype(raw.dtype, settings.dtype)) refuse_name("dtype", raw.dtype, dtype_names());
  if (!parse_reduce_op(raw.reduction, settings.op))
    refuse_name("reduction", raw.reduction, reduction_names());
  if (raw.ranks == 0) settings.ranks = std::max(2, usable_cores().count());
  refuse_if(settings.ranks < 1 || settings.ranks > cli::kLargestJob,
            fmt::format("--ranks {}: from 1 to {}", raw.ranks, cli::kLargestJob));
  refuse_if(settings.kind == Kind::send_recv && settings.ranks < 2, "send_recv needs at least 2 ranks");
  settings.sizes =
      settings.kind == Kind::barrier ? std::vector<std::uint64_t>{0} : cli::parse_sizes(raw.sizes);
  for (const auto& name : split_names(raw.transport)) {
    if (transport::find_transport(name) == nullptr)
      refuse_name("transport", name, transport::transport_names());
  }
  if (std::ranges::find(kMemories, raw.memory) == kMemories.end())
    refuse_name("memory", raw.memory, kMemories);
  settings.shared_memory = raw.memory == "shared";
  check_device(settings);
  check_algorithm(settings.kind, raw.algorithm);
  refuse_if(raw.policy.iterations < 0 || raw.policy.warmup < 0,
            "--iterations and --warmup cannot be negative");
  refuse_if(raw.tensors < 1, "--tensors: at least 1");
  refuse_if(raw.compute_ms < 0 || raw.compute_ms > kMostComputeMs,
            fmt::format("--compute: from 0 to {} ms", kMostComputeMs));
  refuse_if(raw.steps < 1, "--calls-a-barrier: at least 1");
  const auto& [neighbours, blip] = raw.neighbours;
  refuse_if(neighbours < 0 || neighbours > kMostNeighbours,
            fmt::format("--neighbours: from 0 to {}", kMostNeighbours));
  refuse_if(
      blip != std::pair(0, 0) && (blip.first < 1 || blip.second < blip.first || blip.second > kMostBlipUs),
      fmt::format("--blip: first at least 1 us, then at least as many, up to {} us", kMostBlipUs));
  refuse_if(blip.second > 0 && neighbours == 0, "--blip needs --neighbours");
  refuse_if(raw.tensors > 1 && settings.kind == Kind::send_recv,
            "--tensors needs a collective: send_recv measures round trips");
  const bool measures_all = raw.algorithm == kEveryAlgorithm;
  refuse_if(raw.compute_ms > 0 && settings.kind == Kind::send_recv, "--compute needs a collective");
  refuse_if(raw.compute_ms > 0 && measures_all, "--algorithm all measures calls alone, without --compute");
  refuse_if((raw.tensors > 1 || raw.steps > 1) && measures_all,
            "--algorithm all measures one tensor at a time, without --tensors and --calls-a-barrier");
  refuse_if(
      settings.is_on_gpu && (measures_all || !raw.against.empty()),
      "--device compares with copies and with the host's memory, without --algorithm all and --against");
  settings.in_place = raw.in_place.value_or(usually_in_place(settings.kind));
  refuse_if(!raw.table.empty() && !measures_all, "--learn goes with --algorithm all");
  refuse_if(!raw.table.empty() && settings.ranks < 2,
            "--learn needs at least 2 ranks: one has nothing to send");
  if (!parse_wire(raw.wire, settings.wire)) refuse_name("wire format", raw.wire, kWires);
  const bool is_sum = settings.op == ReduceOp::sum || settings.op == ReduceOp::average;
  const bool is_rounded = settings.wire != Wire::native;
  refuse_if(is_rounded && (settings.kind != Kind::all_reduce || settings.dtype != DType::float32 || !is_sum),
            "--wire is for all_reduce of float32, sum or average");
  refuse_if(is_rounded && (measures_all || !raw.against.empty()),
            "--wire compares with kolo's own float32, without --algorithm all and --against");
  refuse_if(raw.link_mbit < 0, "--link cannot be negative");
  settings.against = split_names(raw.against);
  for (const auto& name : settings.against) {
    if (find_peer_kind(name) != nullptr) continue;
    std::vector<std::string_view> names;
    for (const PeerKind& kind : peer_kinds()) names.push_back(kind.name);
    refuse_name("peer", name, names);
  }
  const auto op = schedule::is_reducing(settings.kind) ? std::optional(settings.op) : std::nullopt;
  const std::string limitation = Pattern::limitation(settings.dtype, op, settings.ranks);
  refuse_if(!limitation.empty(), limitation);
  return settings;
}

}  // namespace kolo::bench
