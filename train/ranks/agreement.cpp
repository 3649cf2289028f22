#include "ranks/agreement.hpp"

#include "kolo/train/libtorch.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <vector>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

std::string name_of_rank(int rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace

std::string text_from(Communicator& communicator, std::string text, int root) {
  std::uint64_t length = text.size();
  communicator.broadcast(Buffer(&length, 1, DType::uint64), root);
  text.resize(length);
  communicator.broadcast(Buffer(text.data(), length, DType::uint8), root);
  return text;
}

std::optional<Complaint> first_complaint(Communicator& communicator, const std::string& mine) {
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(communicator.size()));
  const std::uint64_t length = mine.size();
  communicator.all_gather(ConstBuffer(&length, 1, DType::uint64), Buffer(lengths));
  const auto first = std::ranges::find_if(lengths, [](std::uint64_t n) { return n > 0; });
  if (first == lengths.end()) return {};
  const int rank = static_cast<int>(first - lengths.begin());
  return Complaint{rank, text_from(communicator, mine, rank)};
}

void require_on_all(Communicator& communicator, const std::string& who, const std::function<void()>& action) {
  if (const auto complaint = first_complaint(communicator, problem_of(action))) {
    throw InvalidArgumentError(who + ": " + name_of_rank(complaint->rank) + ": " + complaint->text,
                               {.peer = complaint->rank, .collective = who});
  }
}

std::string difference(const std::string& mine, const std::string& others, const std::string& me,
                       const std::string& other, const std::string& what) {
  std::istringstream my_lines(mine), other_lines(others);
  std::string my_line, other_line;
  while (true) {
    const bool have_mine = static_cast<bool>(std::getline(my_lines, my_line));
    const bool have_other = static_cast<bool>(std::getline(other_lines, other_line));
    if (!have_mine && !have_other) return {};
    if (have_mine && have_other && my_line == other_line) continue;
    return me + " has " + (have_mine ? my_line : "no further " + what) + " where " + other + " has " +
           (have_other ? other_line : "no further " + what);
  }
}

std::optional<Complaint> first_difference(Communicator& communicator, const std::string& mine,
                                          const std::string& what) {
  const std::string roots = text_from(communicator, mine, 0);
  return first_complaint(communicator,
                         difference(mine, roots, name_of_rank(communicator.rank()), name_of_rank(0), what));
}

std::optional<Odd> find_odd(std::span<const std::uint64_t> by_rank) {
  std::size_t usual = 0;
  std::ptrdiff_t most = 0;
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    if (r > 0 && by_rank[r] == by_rank[usual]) continue;
    const std::ptrdiff_t equal = std::ranges::count(by_rank, by_rank[r]);
    if (equal > most) {
      usual = r;
      most = equal;
    }
  }
  const auto odd =
      std::ranges::find_if(by_rank, [&](std::uint64_t value) { return value != by_rank[usual]; });
  if (odd == by_rank.end()) return {};
  return Odd{static_cast<int>(odd - by_rank.begin()), static_cast<int>(usual)};
}

std::optional<Odd> find_odd(Communicator& communicator, std::uint64_t mine) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(ConstBuffer(&mine, 1, DType::uint64), Buffer(all));
  return find_odd(all);
}

std::optional<Complaint> find_odd_text(Communicator& communicator, const std::string& mine,
                                       const std::string& what) {
  const auto odd = find_odd(communicator, hash_of(mine.data(), mine.size()));
  if (!odd) return {};
  const std::string odds = text_from(communicator, mine, odd->rank);
  const std::string usual = text_from(communicator, mine, odd->usual);
  return Complaint{odd->rank,
                   difference(odds, usual, name_of_rank(odd->rank), name_of_rank(odd->usual), what)};
}

std::uint64_t hash_of(const void* data, std::size_t bytes) {
  constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15u;
  const auto* at = static_cast<const std::byte*>(data);
  std::uint64_t hash = bytes;
  for (; bytes > 0;) {
    std::uint64_t word = 0;
    const std::size_t step = std::min(bytes, sizeof word);
    std::memcpy(&word, at, step);
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 32;
    at += step;
    bytes -= step;
  }
  return hash;
}

}  // namespace kolo::train
