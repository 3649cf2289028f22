#include "ranks/agreement.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"

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

std::vector<std::string> texts_of_all(Communicator& communicator, const std::string& mine) {
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(communicator.size()));
  const std::uint64_t length = mine.size();
  communicator.all_gather(ConstBuffer(&length, 1, DType::uint64), Buffer(lengths));
  std::string all(std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0}), ' ');
  communicator.all_gather(ConstBuffer(mine.data(), mine.size(), DType::uint8),
                          Buffer(all.data(), all.size(), DType::uint8), lengths);
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::uint64_t bytes : lengths) texts.push_back(all.substr(std::exchange(at, at + bytes), bytes));
  return texts;
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

std::string difference(const std::string& mine, const std::string& others, int rank, int other) {
  std::istringstream my_lines(mine), other_lines(others);
  std::string my_line, other_line;
  while (true) {
    const bool have_mine = static_cast<bool>(std::getline(my_lines, my_line));
    const bool have_other = static_cast<bool>(std::getline(other_lines, other_line));
    if (!have_mine && !have_other) return {};
    if (have_mine && have_other && my_line == other_line) continue;
    return name_of_rank(rank) + " has " + (have_mine ? my_line : "nothing") + " where " +
           name_of_rank(other) + " has " + (have_other ? other_line : "nothing");
  }
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

namespace kolo {

void agree(Communicator& communicator, const char* who, const std::string& lines,
           const std::function<void()>& require_valid) {
  const std::string problem = require_valid ? problem_of(require_valid) : "";
  const std::string text =
      std::string(who) + '\n' + lines;  // ranks that come from other calls differ in `who`
  const std::array<std::uint64_t, 2> mine{problem.size(), train::hash_of(text.data(), text.size())};
  std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(communicator.size())), hashes;
  communicator.all_gather(ConstBuffer(mine.data(), mine.size(), DType::uint64), Buffer(all));
  for (std::size_t i = 0; i < all.size(); i += 2) {
    hashes.push_back(all[i + 1]);
    if (all[i] == 0) continue;
    const int rank = static_cast<int>(i / 2);
    const std::string of_rank = train::text_from(communicator, problem, rank);
    throw InvalidArgumentError(std::string(who) + ": " + train::name_of_rank(rank) + ": " + of_rank,
                               {.peer = rank, .collective = who});
  }
  const auto odd = train::find_odd(hashes);
  if (!odd) return;
  const std::string odds = train::text_from(communicator, text, odd->rank);
  const std::string usual = train::text_from(communicator, text, odd->usual);
  throw MismatchError(std::string(who) + ": " + train::difference(odds, usual, odd->rank, odd->usual),
                      {.peer = odd->rank, .collective = who});
}

}  // namespace kolo
