#include "launch/part.hpp"

#include <unistd.h>

#include <charconv>

#include "launch/frames.hpp"

namespace kolo::cli {
namespace {

/// Reads texts one after the other; records whether one was missing or invalid.
class Texts {
 public:
  explicit Texts(std::string_view joined) : texts_(split_texts(joined)) {}

  std::string text() {
    if (next_ < texts_.size()) return texts_[next_++];
    fine_ = false;
    return {};
  }
  int number(int lowest, int highest) {
    const std::string digits = text();
    int value = lowest;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    fine_ = fine_ && error == std::errc() && end == digits.data() + digits.size() && value >= lowest &&
            value <= highest;
    return fine_ ? value : lowest;
  }
  bool fine() const { return fine_; }
  std::size_t left() const { return texts_.size() - next_; }

 private:
  std::vector<std::string> texts_;
  std::size_t next_ = 0;
  bool fine_ = true;
};

constexpr int kMostRanks = 4096;
constexpr int kMostArguments = 1 << 20;

}  // namespace

std::string encode_part(const std::string& directory, const LocalPart& part) {
  std::vector<std::string> texts = {directory, std::to_string(part.size), std::to_string(part.ranks),
                                    std::to_string(part.first_rank), std::to_string(part.command.size())};
  texts.insert(texts.end(), part.command.begin(), part.command.end());
  for (const auto& [name, value] : part.environment) texts.insert(texts.end(), {name, value});
  return join_texts(texts);
}

std::optional<PartAndPlace> decode_part(std::string_view text) {
  Texts texts(text);
  PartAndPlace made;
  made.directory = texts.text();
  made.part.size = texts.number(1, kMostRanks);
  made.part.ranks = texts.number(1, made.part.size);
  made.part.first_rank = texts.number(0, made.part.size - made.part.ranks);
  const int arguments = texts.number(0, kMostArguments);
  for (int i = 0; i < arguments && texts.fine(); ++i) made.part.command.push_back(texts.text());
  while (texts.fine() && texts.left() > 0) {
    std::string name = texts.text();
    made.part.environment.emplace_back(std::move(name), texts.text());
  }
  if (!texts.fine()) return std::nullopt;
  return made;
}

std::string encode_ending(const Ending& ending) {
  return join_texts({std::to_string(ending.exit_code), std::to_string(ending.signal), ending.what});
}

std::optional<Ending> decode_ending(std::string_view text) {
  Texts texts(text);
  Ending ending;
  ending.exit_code = texts.number(0, 255);
  ending.signal = texts.number(0, 64);
  ending.what = texts.text();
  if (!texts.fine()) return std::nullopt;
  return ending;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** at = environ; *at; ++at) entries.emplace_back(*at);
  return entries;
}

}  // namespace kolo::cli
