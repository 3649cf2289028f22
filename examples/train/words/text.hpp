// A text as numbers of words, and the words that a model is asked to tell from the right ones.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <random>
#include <string>

namespace words {

/// Both int64 [n]: 1 is the most frequent word of the training part, 2 the next; 0 is each of those that are
/// not among the `vocabulary` - 1 most frequent.
struct Words {
  at::Tensor training;
  at::Tensor held_out;
};

/// The words of a file, in lower case, in the parts of support::read_corpus(), whose errors it throws, and
/// std::runtime_error for a file with fewer than 1,000 words to train on.
Words read_text(const std::string& path, std::int64_t vocabulary);

/// int64 [count]: a made-up text, the same one for the same seed. Every other word is drawn with frequencies
/// as in a language (the n-th word 1 / n, "Zipf's law"); the word after it always is the same one, so that
/// there is something to learn.
at::Tensor made_up_text(std::int64_t vocabulary, std::int64_t count, std::uint64_t seed);

/// Draws words with such frequencies: word w with probability log((w + 2) / (w + 1)) / log(V
/// + 1).
class LogUniform {
 public:
  explicit LogUniform(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::int64_t operator()(std::mt19937_64& random) const;
  /// For int64 words of any shape: the logarithms of their probabilities, float32.
  at::Tensor log_probability(const at::Tensor& words) const;

 private:
  std::int64_t vocabulary_;
};

}  // namespace words
