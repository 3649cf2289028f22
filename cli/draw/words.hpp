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

/// "Start" of step 0, else "Step 3 of 14".
std::string step_name(const Picture& picture, std::size_t step);

/// "reduce-scatter, 3 of 7": the step's phases, and the step's place among the steps of these phases. Empty
/// for step 0.
std::string phase_in_words(const Picture& picture, std::size_t step);

/// "Step 3 of 14: reduce-scatter, 3 of 7": step_name() and phase_in_words().
std::string step_heading(const Picture& picture, std::size_t step);

/// "14, by the formula 2(N-1)", "at most 24, by ...": the number that the algorithm's closed form gives, and
/// the form.
std::string stated_in_words(const Picture& picture, const std::string& number, std::string_view form);

/// Describes a step in a sentence or two. Step 0: the state before the first step.
std::string step_in_words(const Picture& picture, std::size_t step);

/// Number of complete results after a step, and number of all results.
struct Progress {
  std::size_t done = 0;
  std::size_t all = 0;
};
Progress progress_after(const Frames& frames, std::size_t step);

}  // namespace kolo::draw
