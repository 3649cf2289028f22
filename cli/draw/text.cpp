#include "draw/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "draw/words.hpp"
#include "text/columns.hpp"

namespace kolo::draw {
namespace {

constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";

/// How a cell is written: all cells of a drawing in the same way.
class CellText {
 public:
  explicit CellText(const Picture& picture) : picture_(picture) {
    const auto ranks = static_cast<std::size_t>(picture.spec.size);
    named_ = ranks <= kDigits.size() && width_of(picture, ranks) <= cli::kTerminalWidth;
    if (!picture.slot_per_rank) {
      width_ = std::to_string(ranks - 1).size();
    } else {
      width_ = named_ ? ranks : std::to_string(ranks).size();
    }
    const std::string widest = std::to_string(picture.frames.parts - 1);
    width_ = std::max(width_, widest.size());
    is_spaced_ = width_of(picture, width_) + picture.frames.parts <= cli::kTerminalWidth;
  }

  static constexpr std::size_t kMargin = 8;  // "rank 12 "

  /// With the mark of a result, and a space where all chunks fit beside each other with it.
  std::size_t width() const { return width_ + (is_spaced_ ? 2 : 1); }

  std::string of(const Cell& cell) const {
    return fmt::format("{}{}", contents(cell), cell.done ? '*' : ' ');
  }

  std::string legend() const {
    std::string text = "* the rank's result, and complete; ";
    if (schedule::is_reducing(picture_.collective())) text += "+ the receiver adds it; ";
    if (!picture_.slot_per_rank) return text + "a cell names the rank that the chunk comes from, . is none";
    if (named_) {
      return text + (picture_.spec.size > 10 ? "a cell names whose contributions it holds (a is rank 10)"
                                             : "a cell names the ranks whose contributions it holds");
    }
    return text + "a cell counts the ranks whose contributions it holds";
  }

 private:
  /// The width of a line whose cells have `cell` characters and a mark.
  static std::size_t width_of(const Picture& picture, std::size_t cell) {
    return kMargin + picture.frames.parts * (cell + 1);
  }

  std::string contents(const Cell& cell) const {
    std::vector<bool> in(static_cast<std::size_t>(picture_.spec.size), false);
    for (const std::uint32_t set : cell.sets) {
      for (const int rank : picture_.frames.sets[set]) in[static_cast<std::size_t>(rank)] = true;
    }
    const auto count = std::ranges::count(in, true);
    if (!picture_.slot_per_rank) {
      return count == 0 ? "." : std::to_string(std::ranges::find(in, true) - in.begin());
    }
    if (!named_) return std::to_string(count);
    std::string text;
    for (std::size_t rank = 0; rank < in.size(); ++rank) text += in[rank] ? kDigits[rank] : '.';
    return text;
  }

  const Picture& picture_;
  bool named_ = false;
  bool is_spaced_ = false;
  std::size_t width_ = 0;  // of the contents
};

std::string wrapped(std::string_view text) {
  return cli::wrapped(text, cli::kTerminalWidth);
}

/// Words side by side in the lines of a terminal, each as wide as the widest.
std::string columns(const std::vector<std::string>& words) {
  std::size_t widest = 0;
  for (const std::string& word : words) widest = std::max(widest, word.size());
  const std::size_t a_line = std::max<std::size_t>(1, (cli::kTerminalWidth - 2) / (widest + 3));
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool last = i % a_line == a_line - 1 || i + 1 == words.size();
    text += i % a_line == 0 ? "  " : "";
    text += last ? words[i] + "\n" : fmt::format("{:<{}}", words[i], widest + 3);
  }
  return text;
}

std::string cells_of(const Picture& picture, const CellText& cell_text, const Frame& frame) {
  const std::size_t parts = picture.frames.parts;
  const std::size_t width = cell_text.width();
  const std::size_t at_once = std::max<std::size_t>(1, (cli::kTerminalWidth - CellText::kMargin) / width);
  std::string text;
  for (std::size_t begin = 0; begin < parts; begin += at_once) {
    const std::size_t end = std::min(parts, begin + at_once);
    if (parts > 1) {
      text += fmt::format("{:<{}}", "chunk", CellText::kMargin);
      for (std::size_t part = begin; part < end; ++part) {
        text += part + 1 == end ? std::to_string(part) + "\n" : fmt::format("{:<{}}", part, width);
      }
    }
    for (std::size_t rank = 0; rank < frame.cells.size(); ++rank) {
      std::string line = fmt::format("{:<{}}", fmt::format("rank {}", rank), CellText::kMargin);
      for (std::size_t part = begin; part < end; ++part) {
        line += fmt::format("{:<{}}", cell_text.of(frame.cells[rank][part]), width);
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string to_text(const Picture& picture) {
  const algorithms::Algorithm& algorithm = *picture.configured.algorithm;
  const Frames& frames = picture.frames;
  const CellText cell_text(picture);
  std::string text = fmt::format("{}\n{}{}", picture.title(), wrapped(sentence(algorithm.purpose)),
                                 wrapped(fmt::format("Source: {}", algorithm.source)));
  std::string cost = fmt::format(
      "Steps: {}. Any algorithm takes at least {}. The busiest rank sends {}",
      stated_in_words(picture, std::to_string(picture.stated.steps), algorithm.closed_form.steps),
      picture.least.steps,
      stated_in_words(picture, picture.of_whole(picture.stated.sent), algorithm.closed_form.sent));
  if (!picture.least.through.empty()) {
    cost += fmt::format(
        ". With any algorithm some rank sends or receives at least {:.4g} n = {}. N: the ranks; n: the bytes "
        "of the whole data.",
        picture.least.through_of_whole, picture.least.through);
  } else {
    cost += ".";
  }
  text += wrapped(cost) + wrapped(cell_text.legend());
  for (std::size_t step = 0; step < frames.frames.size(); ++step) {
    const Frame& frame = frames.frames[step];
    const std::string phase = phase_in_words(picture, step);
    const std::string name = step_name(picture, step) + (phase.empty() ? "" : " (" + phase + ")");
    text += "\n" + wrapped(fmt::format("{}: {}", name, step_in_words(picture, step)));
    std::vector<std::string> messages;
    for (const Message& message : frame.messages) {
      messages.push_back(fmt::format("{} -> {}  {}{}", message.from, message.to, message.reduces ? "+ " : "",
                                     chunks_in_words(picture, message)));
    }
    text += columns(messages) + cells_of(picture, cell_text, frame);
  }
  const Moved& moved = frames.frames.back().moved;
  return text + "\n" +
         wrapped(fmt::format(
             "Altogether: {} steps; the busiest rank sends {} and the busiest receives {}; the busiest "
             "link carries {}.",
             frames.steps(), picture.of_whole(moved.sent), picture.of_whole(moved.received),
             picture.of_whole(moved.link)));
}

}  // namespace kolo::draw
