// What a picture shows, in words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "draw/picture.hpp"

namespace kolo::draw {

/// The text with a full stop.
std::string sentence(std::string_view text);

/// "rank 3", "ranks 0 to 2, 5"; nothing for no ranks.
std::string ranks_in_words(const std::vector<int>& ranks);

/// "chunk 3", "chunks 0 to 2, 5"; with one chunk its meaning: "the data", "its sum"; of a barrier "word".
std::string chunks_in_words(const Picture& picture, const Message& message);

/// "rank 0 sends chunk 3 to rank 1, which adds it to its own".
std::string message_in_words(const Picture& picture, const Message& message);

/// Describes a step in a sentence or two. Step 0: the state before the first step.
std::string step_in_words(const Picture& picture, std::size_t step);

/// Number of complete results after a step, and number of all results.
struct Progress {
  std::size_t done = 0;
  std::size_t all = 0;
};
Progress progress_after(const Frames& frames, std::size_t step);

}  // namespace kolo::draw
