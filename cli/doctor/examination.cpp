#include "doctor/examination.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kolo::doctor {

const Facts& Examination::of(int rank) const {
  return *std::find_if(ranks.begin(), ranks.end(), [rank](const Facts& facts) { return facts.rank == rank; });
}

std::string Examination::host_name(int rank) const {
  if (!hosts.empty()) return hosts.at(static_cast<std::size_t>(rank));
  const Facts& facts = of(rank);
  const bool unique = std::none_of(ranks.begin(), ranks.end(), [&](const Facts& other) {
    return other.host == facts.host && other.place != facts.place;
  });
  const std::string address = card_to_others(rank).address;
  return unique || address.empty() ? facts.host : address;
}

std::string Examination::name(int rank) const {
  const bool one_a_host = neighbours(rank).size() == 1 && leaders().size() == ranks.size();
  return one_a_host ? host_name(rank) : fmt::format("rank {} on {}", rank, host_name(rank));
}

std::vector<int> Examination::neighbours(int rank) const {
  std::vector<int> found;
  for (const Facts& facts : ranks) {
    if (facts.place == of(rank).place) found.push_back(facts.rank);
  }
  return found;
}

Cores Examination::cores(int rank) const {
  Cores together;
  for (const int neighbour : neighbours(rank)) together |= parse_cores(of(neighbour).cores);
  return together;
}

std::vector<int> Examination::oversubscribed(int rank) const {
  const std::vector<int> here = neighbours(rank);
  std::vector<int> found;
  for (const int one : here) {
    std::vector<Cores> others;
    for (const int other : here) {
      if (other != one) others.push_back(parse_cores(of(other).cores));
    }
    if (processes_a_core(parse_cores(of(one).cores), others) > 1) found.push_back(one);
  }
  return found;
}

Card Examination::card_to_others(int rank) const {
  for (const Dial& dial : dials) {
    if (dial.from == rank && dial.outcome == "ok" && of(dial.to).place != of(rank).place) return dial.card;
  }
  return {};
}

std::vector<int> Examination::leaders() const {
  std::vector<int> leaders;
  for (const Facts& facts : ranks) {
    const bool known = std::any_of(leaders.begin(), leaders.end(),
                                   [&](int leader) { return of(leader).place == facts.place; });
    if (!known) leaders.push_back(facts.rank);
  }
  return leaders;
}

}  // namespace kolo::doctor
