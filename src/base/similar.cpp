#include "base/similar.hpp"

#include <algorithm>
#include <limits>

namespace kolo {
namespace {

constexpr std::size_t kFar = std::numeric_limits<std::size_t>::max();
/// Shorter names are in too many others.
constexpr std::size_t kShortestPart = 3;
constexpr std::size_t kMostNames = 3;

bool separates(char c) {
  return c == '_' || c == '-';
}

/// Without separators, in lower case.
std::string folded(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (!separates(c)) result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

/// Letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::vector<std::size_t>> least(one.size() + 1, std::vector<std::size_t>(other.size() + 1));
  for (std::size_t i = 0; i <= one.size(); ++i) {
    for (std::size_t j = 0; j <= other.size(); ++j) {
      if (i == 0 || j == 0) {
        least[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = least[i - 1][j - 1] + (one[i - 1] == other[j - 1] ? 0 : 1);
      least[i][j] = std::min({replaced, least[i - 1][j] + 1, least[i][j - 1] + 1});
      if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1])
        least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  }
  return least[one.size()][other.size()];
}

/// The least distance to a part of `known`.
std::size_t distance_to_parts(std::string_view name, std::string_view known) {
  std::size_t least = kFar;
  while (!known.empty()) {
    const auto end = std::ranges::find_if(known, separates);
    const auto size = static_cast<std::size_t>(end - known.begin());
    least = std::min(least, distance(name, folded(known.substr(0, size))));
    known.remove_prefix(std::min(size + 1, known.size()));
  }
  return least;
}

/// 0 for the best; kFar for a name that is not similar. `name` is folded.
std::size_t rank_of(std::string_view name, std::string_view known) {
  const std::string other = folded(known);
  if (name == other) return 0;
  if (name.empty()) return kFar;
  const bool is_part = std::min(name.size(), other.size()) >= kShortestPart &&
                       (other.find(name) != other.npos || name.find(other) != name.npos);
  if (is_part) return 1;
  const std::size_t most = std::min(std::max<std::size_t>(1, name.size() / 3), name.size() - 1);
  const std::size_t of_all = distance(name, other), of_part = distance_to_parts(name, known);
  if (std::min(of_all, of_part) > most) return kFar;
  return of_all <= of_part ? 2 * of_all : 2 * of_part + 1;
}

}  // namespace

std::vector<std::string_view> similar_names(std::string_view name, std::span<const std::string_view> known) {
  const std::string wanted = folded(name);
  std::vector<std::string_view> best;
  std::size_t least = kFar - 1;
  for (const std::string_view one : known) {
    const std::size_t rank = rank_of(wanted, one);
    if (rank > least) continue;
    if (rank < least) best.clear();
    least = rank;
    if (std::ranges::find(best, one) == best.end()) best.push_back(one);
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> known) {
  std::vector<std::string_view> names = similar_names(name, known);
  if (names.empty()) return {};
  names.resize(std::min(names.size(), kMostNames));
  std::string text = "; did you mean ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += "'" + std::string(names[i]) + "'";
  }
  return text + "?";
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  return did_you_mean(name, views);
}

}  // namespace kolo
