#include "selection/chooser.hpp"

#include <string>

namespace kolo {

Result<const Algorithm*> choose_algorithm(const Choice& choice) {
  const auto fits = [&](const Algorithm& algorithm) {
    return algorithm.rank_ordered || !choice.needs_rank_order;
  };
  if (!choice.wanted.empty()) {
    auto found = require_algorithm(choice.collective, choice.wanted);
    if (found.ok() && !fits(**found)) {
      return Status(Code::invalid_argument,
                    std::string(name_of(choice.collective)) + " algorithm '" + std::string(choice.wanted) +
                        "' does not combine in rank order, which a reduction that is not commutative needs");
    }
    return found;
  }
  if (const Algorithm* preferred = find_algorithm(choice.collective, choice.preferred)) {
    if (fits(*preferred)) return preferred;
  }
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == choice.collective && fits(algorithm)) return &algorithm;
  }
  return Status(Code::invalid_argument,
                "no algorithm of " + std::string(name_of(choice.collective)) + " fits");
}

}  // namespace kolo
