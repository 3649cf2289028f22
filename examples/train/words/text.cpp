#include "words/text.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "support/corpus.hpp"

namespace words {

namespace {

constexpr std::int64_t kMinWords = 1000;

using Numbers = std::unordered_map<std::string, std::int64_t>;

void for_each_word(const std::string& text, const std::function<void(const std::string&)>& use) {
  std::string word;
  const auto end = [&] {
    if (!word.empty()) use(word);
    word.clear();
  };
  for (const char character : text) {
    const auto letter = static_cast<unsigned char>(character);
    if (std::isalnum(letter) != 0 || letter == '\'' || letter >= 128) {
      word += static_cast<char>(std::tolower(letter));
    } else {
      end();
    }
  }
  end();
}

/// 1 is the most frequent word.
Numbers number_words(const std::string& text, std::int64_t vocabulary) {
  Numbers counts;
  for_each_word(text, [&](const std::string& word) { ++counts[word]; });
  std::vector<std::pair<std::int64_t, const std::string*>> by_frequency;
  for (const auto& [spelling, count] : counts) by_frequency.emplace_back(count, &spelling);
  std::ranges::sort(by_frequency, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : *a.second < *b.second;
  });
  Numbers numbers;
  const auto known = std::min(by_frequency.size(), static_cast<std::size_t>(vocabulary - 1));
  for (std::size_t i = 0; i < known; ++i) numbers[*by_frequency[i].second] = static_cast<std::int64_t>(i) + 1;
  return numbers;
}

at::Tensor numbers_of(const std::string& text, const Numbers& numbers) {
  std::vector<std::int64_t> found;
  for_each_word(text, [&](const std::string& word) {
    const auto number = numbers.find(word);
    found.push_back(number == numbers.end() ? 0 : number->second);
  });
  return at::tensor(found, at::kLong);
}

}  // namespace

Words read_text(const std::string& path, std::int64_t vocabulary) {
  const support::Corpus corpus = support::read_corpus(path);
  const Numbers numbers = number_words(corpus.training, vocabulary);
  Words words{numbers_of(corpus.training, numbers), numbers_of(corpus.held_out, numbers)};
  if (words.training.size(0) < kMinWords)
    throw std::runtime_error(path + " holds fewer than " + std::to_string(kMinWords) + " words to train on");
  return words;
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
