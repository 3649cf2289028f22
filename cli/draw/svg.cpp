#include "draw/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "draw/cards.hpp"
#include "draw/words.hpp"

namespace kolo::draw {
namespace {

constexpr double kPanelWidth = 300;
constexpr double kPanelHeight = 250;
constexpr double kCaption = 44;
constexpr double kMargin = 14;
constexpr double kHeading = 78;
constexpr double kCardHeader = 11;

std::string escape(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else {
      result += c;
    }
  }
  return result;
}

/// A number of the file: a tenth of a unit is enough.
std::string n(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

/// One step.
class Panel {
 public:
  Panel(const Picture& picture, const std::vector<Card>& cards)
      : picture_(picture), grid_(grid_of(picture)), cards_(cards), filled_(picture.colours.size()) {}

  std::string draw(std::size_t step) {
    const Frame& frame = picture_.frames.frames[step];
    std::string text;
    for (const Box& box : picture_.layout.boxes) {
      text +=
          fmt::format("<rect class='h' x='{}' y='{}' width='{}' height='{}' rx='6'/>\n",
                      n(box.low.x * kPanelWidth), n(box.low.y * kPanelHeight),
                      n((box.high.x - box.low.x) * kPanelWidth), n((box.high.y - box.low.y) * kPanelHeight));
    }
    std::string links;
    for (const auto& [one, other] : picture_.layout.links) {
      const Point a = cards_[static_cast<std::size_t>(one)].centre();
      const Point b = cards_[static_cast<std::size_t>(other)].centre();
      links += fmt::format("M{} {}L{} {}", n(a.x), n(a.y), n(b.x), n(b.y));
    }
    if (!links.empty()) text += fmt::format("<path class='l' d='{}'/>\n", links);
    std::string shapes;
    std::string labels;
    for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
      const Card& card = cards_[rank];
      shapes += rectangle(card.low.x, card.low.y + kCardHeader, card.width, card.height - kCardHeader);
      labels += fmt::format("<text x='{}' y='{}'>{}</text>", n(card.centre().x), n(card.low.y + 9), rank);
      for (std::size_t part = 0; part < frame.cells[rank].size(); ++part) {
        add_cell(card, part, frame.cells[rank][part]);
      }
    }
    text += fmt::format("<path class='c' d='{}'/>\n", shapes);
    for (std::size_t i = 0; i < filled_.size(); ++i) {
      if (!filled_[i].empty()) {
        text += fmt::format("<path fill='{}' d='{}'/>\n", picture_.colours[i], filled_[i]);
      }
    }
    if (!done_.empty()) {
      text += fmt::format("<path class='d' stroke-width='{:.2g}' d='{}'/>\n", frame_width(), done_);
    }
    text += fmt::format("<g class='r'>{}</g>\n", labels);
    std::string added, stored;
    for (const Message& message : frame.messages) {
      const Arrow arrow = arrow_between(cards_, message.from, message.to, kPanelWidth, kPanelHeight);
      // Each line is a path of its own, because a marker is drawn only at the end of a path.
      (message.reduces ? added : stored) +=
          fmt::format("<path d='M{} {}Q{} {} {} {}'/>", n(arrow.tail.x), n(arrow.tail.y), n(arrow.bend.x),
                      n(arrow.bend.y), n(arrow.head.x), n(arrow.head.y));
    }
    if (!added.empty()) text += fmt::format("<g class='a'>{}</g>\n", added);
    if (!stored.empty()) text += fmt::format("<g class='a s'>{}</g>\n", stored);
    return text;
  }

 private:
  static std::string rectangle(double x, double y, double width, double height) {
    return fmt::format("M{} {}h{}v{}h{}z", n(x), n(y), n(width), n(height), n(-width));
  }

  bool overlap(const std::vector<std::uint32_t>& sets) const {
    std::set<int> seen;
    for (const std::uint32_t set : sets) {
      for (const int rank : picture_.frames.sets[set]) {
        if (!seen.insert(rank).second) return true;
      }
    }
    return false;
  }

  double height_of_a_cell(const Card& card) const {
    return (card.height - kCardHeader) / static_cast<double>(grid_.rows);
  }

  /// Outline of complete results, as on the page. A wider outline would cover low cells.
  double frame_width() const { return std::min(1.1, height_of_a_cell(cards_[0]) * 0.16); }

  void add_cell(const Card& card, std::size_t part, const Cell& cell) {
    const double width = card.width / static_cast<double>(grid_.columns);
    const double height = height_of_a_cell(card);
    const double top = card.low.y + kCardHeader;
    const auto line = static_cast<double>(picture_.slot_per_rank ? part : part / grid_.columns);
    const auto column = static_cast<double>(part % grid_.columns);
    const double y = top + line * height;
    const double gap = std::min(0.8, height / 6);
    // Values that are not summed yet are side by side, or stacked if a rank is in several sums.
    const bool several = cell.sets.size() > 1;
    const bool stacked = several && overlap(cell.sets);
    const double share = (height - gap) / static_cast<double>(stacked ? cell.sets.size() : 1);
    for (std::size_t s = 0; s < cell.sets.size(); ++s) {
      for (const int rank : picture_.frames.sets[cell.sets[s]]) {
        const auto colour = picture_.colour_per_part ? part : static_cast<std::size_t>(rank);
        if (picture_.slot_per_rank) {
          filled_[colour] += rectangle(card.low.x + (rank + (several ? 0.1 : 0)) * width,
                                       y + (stacked ? static_cast<double>(s) * share : 0),
                                       width * (several ? 0.8 : 1), share * (stacked ? 0.85 : 1));
        } else {
          filled_[colour] += rectangle(card.low.x + column * width, y, width - gap, height - gap);
        }
      }
    }
    if (!cell.done) return;
    const bool whole = picture_.slot_per_rank;
    done_ += rectangle(whole ? card.low.x : card.low.x + column * width, y, whole ? card.width : width - gap,
                       height - gap);
  }

  const Picture& picture_;
  Grid grid_;
  const std::vector<Card>& cards_;
  std::vector<std::string> filled_;  // paths of each colour
  std::string done_;
};

constexpr const char* kStyle = R"(<style>
text{font:11px system-ui,sans-serif;fill:#222}.t{font-size:17px;font-weight:600}
.p{fill:#555}.w{font-size:10px}.b{font-weight:600}.r text{font-size:8px;text-anchor:middle;fill:#444}
.c{fill:#f1f1ee;stroke:#c9c9c4;stroke-width:.6}.d{fill:none;stroke:#111}
.l{stroke:#d4d4cf;stroke-width:.8}.h{fill:#f8f8f4;stroke:#aaa;stroke-dasharray:3 2}
.a path{fill:none;stroke:#333;stroke-width:1.2;marker-end:url(#k)}.s{stroke-dasharray:3 2}
</style>
<marker id='k' viewBox='0 0 6 6' refX='5' refY='3' markerWidth='5' markerHeight='5' orient='auto'>
<path d='M0 0L6 3L0 6z' fill='#333'/></marker>
)";

/// Breaks at spaces after at most `width` letters. Text after the second line is left out.
std::vector<std::string> two_lines(const std::string& text, std::size_t width) {
  if (text.size() <= width) return {text};
  const std::size_t at = text.rfind(' ', width);
  std::string rest = text.substr(at + 1);
  if (rest.size() > width) rest = rest.substr(0, width - 3) + "...";
  return {text.substr(0, at), rest};
}

std::string legend(const Picture& picture) {
  std::string text = "Solid arrow: the receiver adds. Dashed: it stores. Black frame: a complete result. ";
  if (picture.colour_per_part) return text + "A colour for each chunk.";
  if (!picture.slot_per_rank) return text + "A colour for each rank, whose data it is.";
  return text + "A colour and a column for each rank that has contributed; a row for each chunk.";
}

}  // namespace

Result<std::string> to_svg(const Picture& picture) {
  const std::size_t panels = picture.frames.frames.size();
  if (panels - 1 > kMostSheetSteps) {
    return Status(Code::invalid_argument,
                  fmt::format("{} steps are too many for one sheet: {} are the most; take fewer ranks, or "
                              "--format html",
                              panels - 1, kMostSheetSteps));
  }
  const std::size_t columns = panels <= 9 ? 3 : 4;
  const std::size_t rows = (panels + columns - 1) / columns;
  const double width = kMargin + static_cast<double>(columns) * (kPanelWidth + 2 * kMargin);
  const double height =
      kHeading + static_cast<double>(rows) * (kPanelHeight + kCaption + 2 * kMargin) + kMargin / 2;
  const std::vector<Card> cards = place_cards(picture, kPanelWidth, kPanelHeight, kCardHeader);
  const algorithms::Algorithm& algorithm = *picture.configured.algorithm;
  std::string text = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {} {}' width='{}' height='{}' role='img'>\n"
      "<title>{}</title>\n{}<rect width='100%' height='100%' fill='#fff'/>\n",
      n(width), n(height), n(width), n(height), escape(picture.title()), kStyle);
  text +=
      fmt::format("<text class='t' x='{0}' y='28'>{1}</text>\n<text class='p' x='{0}' y='47'>{2}</text>\n",
                  kMargin, escape(picture.title()), escape(algorithm.purpose));
  text += fmt::format("<text class='p' x='{}' y='64'>{}</text>\n", kMargin, escape(legend(picture)));
  for (std::size_t step = 0; step < panels; ++step) {
    const double x = kMargin + static_cast<double>(step % columns) * (kPanelWidth + 2 * kMargin);
    const double y = kHeading + static_cast<double>(step / columns) * (kPanelHeight + kCaption + 2 * kMargin);
    text += fmt::format("<g transform='translate({} {})'>\n", n(x), n(y));
    const std::string name = step == 0 ? "Start" : fmt::format("Step {} of {}", step, panels - 1);
    text += fmt::format("<text class='b' y='10'>{}</text>\n", name);
    double line = 24;
    for (const std::string& words : two_lines(step_in_words(picture, step), 58)) {
      text += fmt::format("<text class='p w' y='{}'>{}</text>\n", n(line), escape(words));
      line += 12;
    }
    text += fmt::format("<g transform='translate(0 {})'>\n{}</g></g>\n", n(kCaption),
                        Panel(picture, cards).draw(step));
  }
  return text + "</svg>\n";
}

}  // namespace kolo::draw
