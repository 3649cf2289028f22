#include "words/text.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <unordered_map>
#include <vector>

namespace words {

at::Tensor read_text(const std::string& path, std::int64_t vocabulary) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::unordered_map<std::string, std::int64_t> counts;
  std::vector<const std::string*> text;
  std::string word;
  const auto end_word = [&] {
    if (word.empty()) return;
    const auto found = counts.try_emplace(word, 0).first;
    ++found->second;
    text.push_back(&found->first);
    word.clear();
  };
  for (std::istreambuf_iterator<char> at(file), end; at != end; ++at) {
    const auto letter = static_cast<unsigned char>(*at);
    if (std::isalnum(letter) != 0 || letter == '\'' || letter >= 128) {
      word += static_cast<char>(std::tolower(letter));
    } else {
      end_word();
    }
  }
  end_word();
  if (text.size() < 1000) throw std::runtime_error(path + " holds fewer than 1,000 words");

  std::vector<std::pair<std::int64_t, const std::string*>> by_frequency;
  for (const auto& [spelling, count] : counts) by_frequency.emplace_back(count, &spelling);
  std::ranges::sort(by_frequency, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : *a.second < *b.second;
  });
  std::unordered_map<const std::string*, std::int64_t> numbers;
  const auto known = std::min(by_frequency.size(), static_cast<std::size_t>(vocabulary - 1));
  for (std::size_t i = 0; i < known; ++i) numbers[by_frequency[i].second] = static_cast<std::int64_t>(i) + 1;
  const at::Tensor result = at::zeros({static_cast<std::int64_t>(text.size())}, at::kLong);
  auto* const out = result.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (const auto found = numbers.find(text[i]); found != numbers.end()) out[i] = found->second;
  }
  return result;
}

at::Tensor made_up_text(std::int64_t vocabulary, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const LogUniform any(vocabulary);
  const at::Tensor result = at::empty({count}, at::kLong);
  auto* const out = result.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = i % 2 == 0 ? any(random) : (out[i - 1] * 31 + 7) % vocabulary;
  }
  return result;
}

std::int64_t LogUniform::operator()(std::mt19937_64& random) const {
  const double share = static_cast<double>(random() >> 11) * 0x1p-53;
  const double word = std::exp(share * std::log(static_cast<double>(vocabulary_) + 1)) - 1;
  return std::min(static_cast<std::int64_t>(word), vocabulary_ - 1);
}

at::Tensor LogUniform::log_probability(const at::Tensor& words) const {
  const at::Tensor word = words.to(at::kDouble);
  const at::Tensor share = ((word + 2) / (word + 1)).log() / std::log(static_cast<double>(vocabulary_) + 1);
  return share.log().to(at::kFloat);
}

}  // namespace words
