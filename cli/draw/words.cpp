#include "draw/words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "catalog/proof.hpp"

namespace kolo::draw {
namespace {

/// "rank 3", "ranks 0 to 2, 5" for numbers in ascending order.
std::string numbers_in_words(const char* noun, const std::vector<int>& numbers) {
  if (numbers.empty()) return {};
  std::string text = fmt::format("{}{} ", noun, numbers.size() > 1 ? "s" : "");
  for (std::size_t begin = 0; begin < numbers.size();) {
    std::size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (begin > 0) text += ", ";
    text += std::to_string(numbers[begin]);
    if (end - begin == 2) text += fmt::format(", {}", numbers[end - 1]);
    if (end - begin > 2) text += fmt::format(" to {}", numbers[end - 1]);
    begin = end;
  }
  return text;
}

/// ", each to the rank 2 places after" if all messages go equally far; else empty.
std::string pattern_of(const Frames& frames, const std::vector<Message>& messages) {
  const int ranks = frames.ranks();
  const auto distance = [&](const Message& message) { return (message.to - message.from + ranks) % ranks; };
  const int first = distance(messages[0]);
  const bool same = std::ranges::all_of(messages, [&](const auto& one) { return distance(one) == first; });
  if (!same || messages.size() < 2) return {};
  if (first == 1) return ", each to the next rank";
  if (first == ranks - 1) return ", each to the rank before";
  return fmt::format(", each to the rank {} places after", first);
}

}  // namespace

std::string sentence(std::string_view text) {
  return std::string(text) + (text.ends_with('.') ? "" : ".");
}

std::string ranks_in_words(const std::vector<int>& ranks) {
  return numbers_in_words("rank", ranks);
}

std::string chunks_in_words(const Picture& picture, const Message& message) {
  if (picture.collective() == schedule::Collective::barrier) return "word";
  if (picture.frames.parts == 1) {
    if (!schedule::is_reducing(picture.collective())) return "the data";
    const std::size_t summed = picture.frames.sets[message.values[0].set].size();
    if (summed == 1) return "its data";
    return summed == static_cast<std::size_t>(picture.spec.size) ? "the result" : "its sum";
  }
  std::vector<int> chunks;
  for (const Value& value : message.values) chunks.push_back(static_cast<int>(value.part));
  std::ranges::sort(chunks);
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return numbers_in_words("chunk", chunks);
}

std::string message_in_words(const Picture& picture, const Message& message) {
  return fmt::format("rank {} sends {} to rank {}{}", message.from, chunks_in_words(picture, message),
                     message.to, message.reduces ? ", which adds it to its own" : "");
}

std::string step_name(const Picture& picture, std::size_t step) {
  return step == 0 ? "Start" : fmt::format("Step {} of {}", step, picture.frames.steps());
}

std::string phase_in_words(const Picture& picture, std::size_t step) {
  for (const Run& run : picture.runs) {
    if (step < run.begin || step >= run.end) continue;
    const std::string phases = in_words(run.phases);
    const std::size_t steps = run.end - run.begin;
    return steps == 1 ? phases : fmt::format("{}, {} of {}", phases, step - run.begin + 1, steps);
  }
  return {};
}

std::string step_heading(const Picture& picture, std::size_t step) {
  const std::string phase = phase_in_words(picture, step);
  return step_name(picture, step) + (phase.empty() ? "" : ": " + phase);
}

std::string stated_in_words(const Picture& picture, const std::string& number, std::string_view form) {
  return fmt::format("{}, by the formula {}",
                     cli::stated_text(picture.configured.algorithm->closed_form, number), form);
}

std::string step_in_words(const Picture& picture, std::size_t step) {
  const Frames& frames = picture.frames;
  const std::vector<Message>& messages = frames.frames[step].messages;
  constexpr std::size_t kFew = 2;
  std::string text;
  if (step == 0) {
    text = "Before the first step";
  } else if (messages.size() <= kFew) {
    for (const Message& message : messages) {
      text += (text.empty() ? "" : "; ") + message_in_words(picture, message);
    }
    if (!text.empty()) text[0] = 'R';  // of "rank"
  } else {
    const std::size_t each = messages[0].values.size();
    const bool even =
        std::ranges::all_of(messages, [&](const auto& one) { return one.values.size() == each; });
    const auto adds = static_cast<std::size_t>(std::ranges::count(messages, true, &Message::reduces));
    text = fmt::format("{} messages", messages.size());
    if (even && frames.parts > 1) {
      text += fmt::format(" of {} chunk{}", each, each == 1 ? "" : "s");
    }
    text += pattern_of(frames, messages);
    if (adds == messages.size()) {
      text += "; the receivers add";
    } else if (adds > 0) {
      text += fmt::format("; {} are added", adds);
    }
  }
  const Progress progress = progress_after(frames, step);
  return text + fmt::format(". {} of {} results are complete.", progress.done, progress.all);
}

Progress progress_after(const Frames& frames, std::size_t step) {
  Progress progress;
  for (std::size_t rank = 0; rank < frames.results.size(); ++rank) {
    for (std::size_t part = 0; part < frames.parts; ++part) {
      if (!frames.results[rank][part]) continue;
      ++progress.all;
      if (frames.frames[step].cells[rank][part].done) ++progress.done;
    }
  }
  return progress;
}

}  // namespace kolo::draw
