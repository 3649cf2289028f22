#include "draw/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "draw/cards.hpp"
#include "draw/web.hpp"
#include "draw/words.hpp"
#include "text/columns.hpp"

namespace kolo::draw {
namespace {

constexpr double kPanelWidth = 222;  // of most steps
constexpr double kPanelHeight = 190;
constexpr double kMargin = 14;
constexpr double kTitle = 49;  // below the title
constexpr double kLine = 15;
// Widths of letters in the widest of the usual fonts, on average: no line may be cut off.
constexpr double kLetter = 7.6;
constexpr double kBoldLetter = 8.5;
constexpr double kSmallLetter = 7;
constexpr double kCardHeader = 12;
/// Cells of narrower cards cannot be told apart.
constexpr double kReadableCard = 25;

/// A number of the file: a tenth of a unit is enough.
std::string n(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

/// Where a step is drawn, and the cards there.
struct Area {
  double width = 0;
  double height = 0;
  std::size_t in_a_row = 0;
  std::vector<Card> cards = {};
};

/// The smallest area in which cards are readable, or else the largest one.
Area area_of(const Picture& picture) {
  constexpr std::pair<std::size_t, std::size_t> kPanels[] = {{1, 1}, {2, 1}, {2, 2}, {4, 2}, {6, 3}};
  Area area;
  for (const auto& [across, down] : kPanels) {
    area.width = static_cast<double>(across) * (kPanelWidth + 2 * kMargin) - 2 * kMargin;
    area.height = static_cast<double>(down) * kPanelHeight;
    area.in_a_row =
        across == 1 && picture.frames.frames.size() <= 9 ? 3 : std::max<std::size_t>(4 / across, 1);
    area.cards = place_cards(picture, area.width, area.height, kCardHeader);
    if (area.cards[0].width >= kReadableCard) break;
  }
  return area;
}

std::size_t rows_for(std::size_t panels, std::size_t columns) {
  return (panels + columns - 1) / columns;
}

/// How many steps stand side by side: more than usual where the sheet would be higher than paper is.
std::size_t columns_of(const Area& area, std::size_t panels, double panel_width, double panel_height) {
  constexpr double kPaper = 1.414;  // height / width, of all sizes of A
  std::size_t columns = area.in_a_row;
  while (static_cast<double>(rows_for(panels, columns)) * panel_height >
         kPaper * static_cast<double>(columns) * panel_width)
    ++columns;
  return columns;
}

/// One step.
class Panel {
 public:
  Panel(const Picture& picture, const Area& area)
      : picture_(picture),
        grid_(grid_of(picture)),
        area_(area),
        cards_(area.cards),
        filled_(picture.colours.size()) {}

  std::string draw(std::size_t step) {
    const Frame& frame = picture_.frames.frames[step];
    std::string text;
    for (const Box& box : picture_.layout.boxes) {
      text +=
          fmt::format("<rect class='h' x='{}' y='{}' width='{}' height='{}' rx='6'/>\n",
                      n(box.low.x * area_.width), n(box.low.y * area_.height),
                      n((box.high.x - box.low.x) * area_.width), n((box.high.y - box.low.y) * area_.height));
    }
    std::array<std::string, 2> links;  // of each tree
    for (const Link& link : picture_.layout.links) {
      const Point a = cards_[static_cast<std::size_t>(link.one)].centre();
      const Point b = cards_[static_cast<std::size_t>(link.other)].centre();
      links[static_cast<std::size_t>(link.tree)] +=
          fmt::format("M{} {}L{} {}", n(a.x), n(a.y), n(b.x), n(b.y));
    }
    for (std::size_t tree = 0; tree < links.size(); ++tree) {
      if (links[tree].empty()) continue;
      text += fmt::format("<path class='l{}' d='{}'/>\n", tree_class(static_cast<int>(tree)), links[tree]);
    }
    text += arrows(frame);  // cards are drawn over them, so no arrow crosses a cell or a number
    std::string shapes;
    std::string labels;
    for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
      const Card& card = cards_[rank];
      shapes += rectangle(card.low.x, card.low.y + kCardHeader, card.width, card.height - kCardHeader);
      labels += fmt::format("<text x='{}' y='{}'>{}</text>", n(card.centre().x), n(card.low.y + 10), rank);
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
    return text;
  }

 private:
  std::string tree_class(int tree) const {
    return picture_.layout.trees.empty() ? "" : fmt::format(" t{}", tree);
  }

  std::string arrows(const Frame& frame) const {
    std::map<std::string, std::string> groups;  // paths by class
    for (const Message& message : frame.messages) {
      const Arrow arrow = arrow_between(cards_, message.from, message.to, area_.width, area_.height);
      std::string name = message.reduces ? "a" : "a s";
      if (!picture_.layout.trees.empty()) name += tree_class(picture_.layout.trees[message.values[0].part]);
      // Each line is a path of its own, because a marker is drawn only at the end of a path.
      groups[name] += fmt::format("<path d='M{} {}Q{} {} {} {}'/>", n(arrow.tail.x), n(arrow.tail.y),
                                  n(arrow.bend.x), n(arrow.bend.y), n(arrow.head.x), n(arrow.head.y));
    }
    std::string text;
    for (const auto& [name, paths] : groups) text += fmt::format("<g class='{}'>{}</g>\n", name, paths);
    return text;
  }

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
  const Area& area_;
  const std::vector<Card>& cards_;
  std::vector<std::string> filled_;  // paths of each colour
  std::string done_;
};

// Colours are written out: viewers other than browsers know neither custom properties nor @media, and must
// find the light ones.
constexpr const char* kStyle = R"(<style>
text{font:13px system-ui,sans-serif}.t{font-size:18px;font-weight:600}.w{font-size:12px}.b{font-weight:600}
.r text{font-size:10px;text-anchor:middle}.c{stroke-width:.6}.d,.l,.a path{fill:none}.l{stroke-width:.8}
.a path{stroke-width:1.2;marker-end:url(#k)}.h,.s{stroke-dasharray:3 2}.l.t0,.l.t1{opacity:.45;stroke-width:1.4}
text{fill:#222}.p,.r text{fill:#555}.k{fill:#fff}.c{fill:#f1f1ee;stroke:#c9c9c4}.d{stroke:#111}.l{stroke:#d4d4cf}
.h{fill:#f8f8f4;stroke:#555}.a path{stroke:#333}.l.t0,.a.t0 path{stroke:#1f6fb4}.l.t1,.a.t1 path{stroke:#b3561c}
#k path{fill:#333;fill:context-stroke}
@media(prefers-color-scheme:dark){
text{fill:#ededea}.p,.r text{fill:#b5b4af}.k{fill:#161618}.c{fill:#2d2d31;stroke:#55555b}.d{stroke:#fff}.l{stroke:#46464c}
.h{fill:#1e1e21;stroke:#b5b4af}.a path{stroke:#cfcec9}.l.t0,.a.t0 path{stroke:#6db3f2}.l.t1,.a.t1 path{stroke:#ff9d6e}
#k path{fill:#cfcec9;fill:context-stroke}}
</style>
<marker id='k' viewBox='0 0 6 6' refX='5' refY='3' markerWidth='5' markerHeight='5' orient='auto'>
<path d='M0 0L6 3L0 6z'/></marker>
)";

std::string legend(const Picture& picture) {
  std::string text =
      "Solid arrow: the receiver adds; dashed: it stores. Frame: a complete result. Box: a rank; ";
  if (picture.colour_per_part) {
    text += "colour: a chunk.";
  } else if (!picture.slot_per_rank) {
    text += "colour: the rank whose data it is.";
  } else {
    text += "row: a chunk; colour and column: a rank that contributed.";
  }
  if (!picture.layout.trees.empty()) text += " Blue: the tree with its root on top; orange: the other tree.";
  return text;
}

using Rows = std::vector<std::string>;

/// The text in rows of at most `width`. `letter`: the width of one on average.
Rows rows_of(const std::string& text, double width, double letter) {
  std::istringstream wrapped(cli::wrapped(text, static_cast<std::size_t>(width / letter)));
  Rows rows;
  for (std::string row; std::getline(wrapped, row);) rows.push_back(row);
  return rows;
}

double height_of(const Rows& rows) {
  return kLine * static_cast<double>(rows.size());
}

/// Each row is `kLine` below the one before; the first one is at `y`.
std::string lines(const std::string& name, double x, double y, const Rows& rows) {
  std::string result;
  for (const std::string& row : rows) {
    result += fmt::format("<text class='{}' x='{}' y='{}'>{}</text>\n", name, n(x), n(y), escaped(row));
    y += kLine;
  }
  return result;
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
  const Area area = area_of(picture);
  const algorithms::Algorithm& algorithm = *picture.configured.algorithm;
  std::vector<Rows> headings, words;  // of each step
  double heading_height = 0;
  double words_height = 0;
  for (std::size_t step = 0; step < panels; ++step) {
    headings.push_back(rows_of(step_heading(picture, step), area.width, kBoldLetter));
    words.push_back(rows_of(step_in_words(picture, step), area.width, kSmallLetter));
    heading_height = std::max(heading_height, height_of(headings.back()));
    words_height = std::max(words_height, height_of(words.back()));
  }
  const double caption = heading_height + words_height + 8;
  const double panel_width = area.width + 2 * kMargin;
  const double panel_height = caption + area.height + 2 * kMargin;
  const std::size_t columns = columns_of(area, panels, panel_width, panel_height);
  const double width = kMargin + static_cast<double>(columns) * panel_width;
  const Rows purpose = rows_of(sentence(algorithm.purpose), width - 2 * kMargin, kLetter);
  const Rows marks = rows_of(legend(picture), width - 2 * kMargin, kLetter);
  const double top = kTitle + height_of(purpose) + height_of(marks) + kMargin;
  const double height = top + static_cast<double>(rows_for(panels, columns)) * panel_height + kMargin / 2;
  std::string text = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' role='img'>\n"
      "<title>{2}</title>\n{3}<rect class='k' width='100%' height='100%'/>\n"
      "<text class='t' x='{4}' y='28'>{2}</text>\n",
      n(width), n(height), escaped(picture.title()), kStyle, kMargin);
  text += lines("p", kMargin, kTitle, purpose);
  text += lines("p", kMargin, kTitle + height_of(purpose), marks);
  for (std::size_t step = 0; step < panels; ++step) {
    const double x = kMargin + static_cast<double>(step % columns) * panel_width;
    const double y = top + static_cast<double>(step / columns) * panel_height;
    text += fmt::format("<g transform='translate({} {})'>\n", n(x), n(y));
    text += lines("b", 0, 10, headings[step]);
    text += lines("p w", 0, 12 + heading_height, words[step]);
    text += fmt::format("<g transform='translate(0 {})'>\n{}</g></g>\n", n(caption),
                        Panel(picture, area).draw(step));
  }
  return text + "</svg>\n";
}

}  // namespace kolo::draw
