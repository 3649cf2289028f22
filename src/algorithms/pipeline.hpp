// Shared by pipelined algorithms: the data goes in chunks, so that a rank passes one on while it gets the
// next.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "algorithms/algorithm.hpp"
#include "algorithms/formula.hpp"

namespace kolo::algorithms {

inline constexpr std::array<Parameter, 1> kChunksParameters = {
    {{"chunks", "pieces in which the data travels down each chain or tree; else 4"}}};

constexpr int kMostChunks = 4096;

inline std::uint32_t chunks_of(const ScheduleSpec& spec, int otherwise = 4) {
  return static_cast<std::uint32_t>(spec.arguments.number("chunks", otherwise));
}

inline constexpr std::string_view kChainSource =
    "J. Pjesivac-Grbovic, T. Angskun, G. Bosilca, G. E. Fagg, E. Gabriel, J. J. Dongarra: Performance "
    "analysis of MPI collective operations, Cluster Computing 10 (2007), pipeline";

inline constexpr std::array<std::string_view, 3> kTriedInChains = {"chunks=1", "chunks=16", "chunks=64"};

/// For parameter servers that spare slow links.
inline constexpr std::array<std::string_view, 3> kTriedPieces = {"1", "4", "16"};

inline std::string chunks_objection(const ScheduleSpec& spec) {
  if (chunks_of(spec) <= kMostChunks) return {};
  return "needs at most " + std::to_string(kMostChunks) + " chunks";
}

/// A chain of all ranks: the last chunk leaves the first rank in step C and passes N-2 more ranks.
inline constexpr ClosedForm kChain = {.steps = "N-2 + C, C chunks",
                                      .sent = "n",
                                      .cost = [](std::uint64_t n, const ScheduleSpec& spec) -> StepsAndBytes {
                                        if (spec.size == 1) return {};
                                        return {n - 2 + chunks_of(spec), chunks_of(spec)};
                                      }};

}  // namespace kolo::algorithms
