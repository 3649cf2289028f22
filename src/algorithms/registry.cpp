#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "algorithms/registered.hpp"
#include "base/similar.hpp"
#include "schedule/completions.hpp"

namespace kolo::algorithms {

namespace {

/// "a, b; did you mean 'b'?"
std::string listed(std::span<const std::string_view> known, std::string_view name) {
  return fmt::format("{}{}", fmt::join(known, ", "), did_you_mean(name, known));
}

}  // namespace

std::span<const Algorithm> algorithms() {
#define KOLO_LIST(name) name,
  static const std::array kAll = {KOLO_ALGORITHMS(KOLO_LIST)};
#undef KOLO_LIST
  return kAll;
}

Result<schedule::Collective> require_collective(std::string_view name) {
  schedule::Collective collective;
  if (schedule::parse_collective(name, collective)) return collective;
  std::vector<std::string_view> known;
  for (const Algorithm& algorithm : algorithms()) {
    const std::string_view one = schedule::name_of(algorithm.collective);
    if (known.empty() || known.back() != one) known.push_back(one);
  }
  return Status(Code::invalid_argument,
                "there is no collective '" + std::string(name) + "'; known are " + listed(known, name));
}

const Algorithm* find_algorithm(schedule::Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

std::vector<std::string_view> collectives_with(std::string_view algorithm) {
  std::vector<std::string_view> names;
  for (const Algorithm& one : algorithms()) {
    if (one.name == algorithm) names.push_back(schedule::name_of(one.collective));
  }
  return names;
}

std::vector<schedule::Schedule> generate_all(const Algorithm& algorithm, ScheduleSpec spec) {
  std::vector<schedule::Schedule> schedules;
  for (spec.rank = 0; spec.rank < spec.size; ++spec.rank) schedules.push_back(algorithm.generate(spec));
  return schedules;
}

Result<const Algorithm*> require_algorithm(schedule::Collective collective, std::string_view name) {
  if (const Algorithm* found = find_algorithm(collective, name)) return found;
  std::vector<std::string_view> known;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == collective) known.push_back(algorithm.name);
  }
  const std::string of(schedule::name_of(collective));
  if (known.empty()) return Status(Code::invalid_argument, of + " has no algorithms to choose from");
  std::string error = fmt::format("{} has no algorithm '{}'; it knows {}", of, name, listed(known, name));
  if (const auto owners = collectives_with(name); !owners.empty()) {
    error +=
        fmt::format("; {} {} one of that name", fmt::join(owners, ", "), owners.size() == 1 ? "has" : "have");
  }
  return Status(Code::invalid_argument, error);
}

Result<ConfiguredAlgorithm> parse_algorithm(schedule::Collective collective, std::string_view text) {
  const auto take = [&text] {
    const std::string_view piece = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(piece.size() + 1, text.size()));
    return piece;
  };
  const auto found = require_algorithm(collective, take());
  if (!found.ok()) return found.status();
  ConfiguredAlgorithm result{found.value(), {}};
  const Algorithm& algorithm = *result.algorithm;
  const std::string who =
      std::string(schedule::name_of(collective)) + " algorithm '" + std::string(algorithm.name) + "' ";
  while (!text.empty()) {
    const std::string_view piece = take();
    const std::size_t equals = std::min(piece.find('='), piece.size());
    const std::string_view name = piece.substr(0, equals);
    const std::string_view value = piece.substr(std::min(equals + 1, piece.size()));
    std::vector<std::string_view> known;
    for (const Parameter& parameter : algorithm.parameters) known.push_back(parameter.name);
    const auto at = std::find(known.begin(), known.end(), name);
    if (known.empty()) return Status(Code::invalid_argument, who + "has no parameters");
    if (at == known.end()) {
      return Status(Code::invalid_argument,
                    who + "has no parameter '" + std::string(name) + "'; it knows " + listed(known, name));
    }
    const ParameterKind kind = algorithm.parameters[static_cast<std::size_t>(at - known.begin())].kind;
    if (const std::string fault = value_fault(kind, value); !fault.empty()) {
      return Status(Code::invalid_argument, who + "cannot take '" + std::string(value) + "' as its " +
                                                std::string(name) + ": " + fault);
    }
    result.arguments.set(name, value);
  }
  return result;
}

Status supports(const Algorithm& algorithm, const ScheduleSpec& spec, const schedule::CallKey& key) {
  std::string why;
  if (!key.commutative && !algorithm.rank_ordered) {
    why = "does not combine in rank order, which a reduction that is not commutative needs";
  } else if (key.in_place && algorithm.out_of_place_only) {
    why = "cannot run in place";
  } else if (algorithm.even_parts_only && key.is_uneven() &&
             (key.algorithm.empty() || !key.has_equal_parts())) {
    // A caller that names the algorithm says that the parts of all ranks are equal.
    why = "needs parts of equal lengths";
  } else if (algorithm.objection != nullptr) {
    why = algorithm.objection(spec);
  }
  if (why.empty() && key.is_rounded()) {
    const std::string twice = schedule::completed_twice(spec.size, [&, asked = spec](int rank) mutable {
      asked.rank = rank;
      return algorithm.generate(asked);
    });
    if (!twice.empty()) {
      why = "adds the same sums at several ranks (" + twice +
            "), which would end with different bits where a wire format rounds";
    }
  }
  if (why.empty()) return {};
  return Status(Code::invalid_argument, std::string(schedule::name_of(algorithm.collective)) +
                                            " algorithm '" + std::string(algorithm.name) +
                                            spec.arguments.text() + "' " + why);
}

const schedule::SharedMemoryForm* form_of(const Algorithm& algorithm, const schedule::CallKey& key) {
  const bool may_be = algorithm.in_shared_memory && !key.is_custom() && !key.is_rounded();
  return may_be ? &*algorithm.in_shared_memory : nullptr;
}

}  // namespace kolo::algorithms
