#include "selection/chooser.hpp"

#include <string>

namespace kolo {

Result<Configured> choose_algorithm(const Choice& choice) {
  const Collective collective = choice.spec.collective;
  const auto fits = [&](const Configured& candidate) {
    ScheduleSpec spec = choice.spec;
    spec.arguments = candidate.arguments;
    return supports(*candidate.algorithm, spec, choice.demands);
  };
  if (!choice.wanted.empty()) {
    auto wanted = parse_algorithm(collective, choice.wanted);
    if (!wanted.ok()) return wanted;
    if (Status status = fits(*wanted); !status.ok()) return status;
    return wanted;
  }
  if (const auto preferred = parse_algorithm(collective, choice.preferred); preferred.ok()) {
    if (fits(*preferred).ok()) return preferred;
  }
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == collective && fits({&algorithm}).ok()) return Configured{&algorithm};
  }
  return Status(Code::invalid_argument, "no algorithm of " + std::string(name_of(collective)) + " fits");
}

}  // namespace kolo
