#include "schedule/contributions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace kolo::schedule {

Contributions::Contributions(int size, bool rank_ordered)
    : size_(static_cast<std::uint32_t>(size)), rank_ordered_(rank_ordered) {
  sets_.reserve(size_);
  for (std::uint32_t r = 0; r < size_; ++r) sets_.push_back({{r, r + 1}});
}

bool Contributions::complete(Set set) const {
  return sets_[set].size() == 1 && sets_[set][0] == Run{0, size_};
}

bool Contributions::equal(Set one, Set other) const {
  return one == other || sets_[one] == sets_[other];
}

Result<Contributions::Set> Contributions::combine(Set left, Set right) {
  Result<Runs> merged = merge(sets_[left], sets_[right]);
  if (!merged.ok()) return merged.status();
  // Ordered sets are single runs; a gap between two of them could not be filled later.
  if (rank_ordered_ && sets_[left].back().end != sets_[right].front().begin) {
    return Status(Code::invalid_argument,
                  fmt::format("it combines {} with {}: not in rank order", describe(left), describe(right)));
  }
  sets_.push_back(std::move(merged).value());
  return static_cast<Set>(sets_.size() - 1);
}

Result<Contributions::Runs> Contributions::merge(const Runs& one, const Runs& other) const {
  Runs sorted;
  sorted.reserve(one.size() + other.size());
  std::merge(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(sorted),
             [](const Run& a, const Run& b) { return a.begin < b.begin; });
  Runs merged;
  for (const Run& run : sorted) {
    if (merged.empty() || run.begin > merged.back().end) {
      merged.push_back(run);
    } else if (run.begin < merged.back().end) {
      return Status(Code::invalid_argument,
                    fmt::format("it adds the contribution of rank {} a second time", run.begin));
    } else {
      merged.back().end = run.end;
    }
  }
  return merged;
}

std::vector<int> Contributions::ranks(Set set) const {
  std::vector<int> ranks;
  for (const Run& run : sets_[set]) {
    for (std::uint32_t r = run.begin; r < run.end; ++r) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

std::string Contributions::describe(Set set) const {
  const Runs& runs = sets_[set];
  std::string text = runs.size() == 1 && runs[0].end - runs[0].begin == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(runs[i].begin);
    if (runs[i].end - runs[i].begin > 1) text += fmt::format(" to {}", runs[i].end - 1);
  }
  return text;
}

std::string Contributions::first_missing(Set set) const {
  const Runs& runs = sets_[set];
  return fmt::format("rank {}", runs[0].begin > 0 ? 0 : runs[0].end);
}

}  // namespace kolo::schedule
