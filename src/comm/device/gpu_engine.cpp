#include "comm/device/gpu_engine.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/config.hpp"
#include "device/nccl.hpp"

namespace kolo::comm {
namespace {

template <std::size_t N>
void write(std::array<char, N>& to, std::string_view text) {
  std::ranges::copy(text.substr(0, N - 1), to.begin());
}

/// Rank of the first that asks for this; the number of ranks if none does.
std::size_t first_with(std::span<const GpuAbility> ranks, std::string_view wish) {
  const auto found =
      std::ranges::find_if(ranks, [&](const GpuAbility& rank) { return rank.wish.data() == wish; });
  return static_cast<std::size_t>(found - ranks.begin());
}

/// Why the ranks cannot use NCCL together; empty if they can.
std::string why_no_nccl(std::span<const GpuAbility> ranks) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].nccl_version == 0) return fmt::format("rank {} has no NCCL: {}", r, ranks[r].trouble.data());
    if (ranks[r].nccl_version != ranks[0].nccl_version) {
      return fmt::format("rank 0 has NCCL {}, rank {} has {}", device::Nccl::text_of(ranks[0].nccl_version),
                         r, device::Nccl::text_of(ranks[r].nccl_version));
    }
  }
  return {};
}

std::string why_not_apart(std::span<const GpuAbility> ranks) {
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (std::size_t before = 0; before < r; ++before)
      if (ranks[before].gpu == ranks[r].gpu) return fmt::format("ranks {} and {} share a GPU", before, r);
  return {};
}

}  // namespace

Result<GpuAbility> GpuAbility::of(const device::Gpu& gpu) {
  GpuAbility ability;
  write(ability.wish, config().gpu);
  if (config().gpu == "staged") return ability;
  auto uuid = gpu.uuid();
  if (!uuid.ok()) return uuid.status();
  ability.gpu = uuid.value();
  const auto nccl = device::Nccl::instance();
  if (nccl.ok()) {
    ability.nccl_version = nccl.value()->version();
  } else {
    write(ability.trouble, nccl.status().message());
  }
  return ability;
}

Result<GpuChoice> choose_gpu_engine(std::span<const GpuAbility> ranks) {
  const std::size_t staged = first_with(ranks, "staged"), nccl = first_with(ranks, "nccl");
  if (nccl < ranks.size()) {
    // Ranks that share a GPU are for NCCL to judge: it knows more than kolo.
    const std::string why =
        staged < ranks.size() ? fmt::format("it is staged on rank {}", staged) : why_no_nccl(ranks);
    if (why.empty()) return GpuChoice{GpuEngine::nccl, fmt::format("rank {} asks for it", nccl)};
    return Status(Code::invalid_argument, fmt::format("KOLO_GPU is nccl on rank {}, but {}", nccl, why));
  }
  if (staged < ranks.size()) return GpuChoice{GpuEngine::staged, fmt::format("rank {} asks for it", staged)};
  std::string why = why_no_nccl(ranks);
  if (why.empty()) why = why_not_apart(ranks);
  if (!why.empty()) return GpuChoice{GpuEngine::staged, why};
  return GpuChoice{GpuEngine::nccl,
                   "all ranks have NCCL " + device::Nccl::text_of(ranks.front().nccl_version)};
}

}  // namespace kolo::comm
