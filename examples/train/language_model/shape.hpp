// The sizes of the language model.
#pragma once

#include <cstdint>

namespace language_model {

struct Shape {
  std::int64_t width = 128;
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t longest_ngram = 4;  ///< bytes that are looked up together; 1: single ones only
  std::int64_t ngram_rows = 8192;  ///< of the table of each length
  std::int64_t ngram_width = 16;
  std::int64_t context = 128;  ///< bytes that the next one is predicted from, at most
};

}  // namespace language_model
