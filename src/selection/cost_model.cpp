#include "selection/cost_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace kolo::selection {
namespace {

/// All numbers of a model, in the order of its text form.
template <typename Model>
auto fields(Model& m) {
  return std::array{&m.memory.latency,
                    &m.memory.overhead,
                    &m.memory.long_overhead,
                    &m.memory.sender_per_byte,
                    &m.memory.receiver_per_byte,
                    &m.memory.wire_per_byte,
                    &m.network.latency,
                    &m.network.overhead,
                    &m.network.long_overhead,
                    &m.network.sender_per_byte,
                    &m.network.receiver_per_byte,
                    &m.network.wire_per_byte,
                    &m.reduce_per_byte,
                    &m.copy_per_byte,
                    &m.wake,
                    &m.cores,
                    &m.segment_bytes};
}

}  // namespace

CostModel typical_cost_model() {
  CostModel model;
  model.memory = {.latency = 1e-6, .overhead = 0.5e-6, .long_overhead = 1e-6, .receiver_per_byte = 1.5e-10};
  model.network = {.latency = 12e-6,
                   .overhead = 6e-6,
                   .sender_per_byte = 2e-10,
                   .receiver_per_byte = 3e-10,
                   .wire_per_byte = 8.5e-10,
                   .longest_short = kNeverAsks};
  model.cores = 8;
  return model;
}

LinkCost typical_loopback() {
  return {.latency = 8e-6,
          .overhead = 4e-6,
          .sender_per_byte = 2e-10,
          .receiver_per_byte = 3e-10,
          .wire_per_byte = 0,
          .longest_short = kNeverAsks};
}

std::string to_text(const CostModel& model) {
  std::string line;
  for (const double* field : fields(model)) line += fmt::format("{}{}", line.empty() ? "" : " ", *field);
  return line;
}

bool is_sane(const CostModel& model) {
  constexpr double kMost = 1e15;  // as in tables: with larger numbers, sums soon become infinite
  const auto numbers = fields(model);
  return std::ranges::all_of(numbers,
                             [](const double* number) { return *number >= 0 && *number <= kMost; }) &&
         model.cores >= 1 && model.cores <= 65536 && model.segment_bytes >= 1;
}

Result<CostModel> cost_model_from_text(const std::string& line) {
  CostModel model;
  const char* at = line.data();
  const char* const end = line.data() + line.size();
  for (double* field : fields(model)) {
    while (at != end && *at == ' ') ++at;
    const auto [next, error] = std::from_chars(at, end, *field);
    if (error != std::errc()) {
      return Status(Code::invalid_argument, "a cost model of 17 numbers was expected, not '" + line + "'");
    }
    at = next;
  }
  if (at != end || !is_sane(model)) {
    return Status(
        Code::invalid_argument,
        "a cost model of 17 numbers from 0 to 1e15 was expected, with cores and segments from 1, not '" +
            line + "'");
  }
  return model;
}

}  // namespace kolo::selection
