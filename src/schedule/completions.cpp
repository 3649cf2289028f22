#include "schedule/completions.hpp"

#include <vector>

#include <fmt/format.h>

namespace kolo::schedule {

std::string completed_twice(int size, const std::function<Schedule(int rank)>& schedule_of) {
  constexpr int kNoStep = -1;
  std::vector<int> completed_at;
  for (int rank = 0; rank < size; ++rank) {
    const Schedule schedule = schedule_of(rank);
    completed_at.resize(schedule.chunks, kNoStep);
    for (const Step& step : schedule.steps) {
      if (!step.completes) continue;
      const bool is_scratch = step.dst.buffer == BufferName::scratch;
      const std::uint32_t begin = is_scratch ? step.dst.like_begin : step.dst.begin;
      for (std::uint32_t i = 0; i < step.dst.count; ++i) {
        const std::uint32_t chunk = (begin + i) % schedule.chunks;
        if (completed_at[chunk] != kNoStep) {
          return fmt::format("chunk {} at rank {} and at rank {}", chunk, completed_at[chunk], rank);
        }
        completed_at[chunk] = rank;
      }
    }
  }
  return {};
}

}  // namespace kolo::schedule
