#include "draw/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace kolo::draw {
namespace {

constexpr double kSmallWidth = 200;
constexpr double kSmallHeight = 140;

Point place_in(const Layout& layout, std::size_t rank, double inset) {
  const Point& place = layout.places[rank];
  // Positions within boxes already keep a distance to the edge.
  const double edge = layout.boxes.empty() ? inset : 0;
  return {edge + place.x * (kSmallWidth - 2 * edge), edge + place.y * (kSmallHeight - 2 * edge)};
}

std::string arrow(const Point& from, const Point& to, double radius) {
  const double length = std::max(std::hypot(to.x - from.x, to.y - from.y), 1e-9);
  const double x = (to.x - from.x) / length;
  const double y = (to.y - from.y) / length;
  // Bent to its right, so the message in the other direction has its own line.
  const double bend = 4 + length / 12;
  return fmt::format("M{:.0f} {:.0f}Q{:.0f} {:.0f} {:.0f} {:.0f}", from.x + x * radius, from.y + y * radius,
                     (from.x + to.x) / 2 - y * bend, (from.y + to.y) / 2 + x * bend, to.x - x * (radius + 1),
                     to.y - y * (radius + 1));
}

}  // namespace

std::string thumbnail_of(const Picture& picture) {
  const Layout& layout = picture.layout;
  const auto& frames = picture.frames.frames;
  const auto& busiest =
      *std::ranges::max_element(frames, {}, [](const Frame& frame) { return frame.messages.size(); });
  const double radius = picture.spec.size > 24 ? 3 : picture.spec.size > 8 ? 6 : 8;
  std::string text = fmt::format("<svg class=\"small\" viewBox=\"0 0 {} {}\" aria-hidden=\"true\">",
                                 kSmallWidth, kSmallHeight);
  for (const Box& box : layout.boxes) {
    text += fmt::format(
        "<rect class=\"host\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"5\"/>",
        box.low.x * kSmallWidth, box.low.y * kSmallHeight, (box.high.x - box.low.x) * kSmallWidth,
        (box.high.y - box.low.y) * kSmallHeight);
  }
  const auto at = [&](int rank) { return place_in(layout, static_cast<std::size_t>(rank), radius + 2); };
  const auto tree_class = [&](const Message& message, std::size_t value) {
    return layout.trees.empty() ? "" : fmt::format(" tree{}", layout.trees[message.values[value].part]);
  };
  // All pairs that exchange messages: a step alone may look like that of another algorithm.
  std::set<std::tuple<int, int, std::string>> links;
  for (const Frame& frame : frames) {
    for (const Message& message : frame.messages) {
      for (std::size_t value = 0; value < message.values.size(); ++value) {
        links.emplace(std::min(message.from, message.to), std::max(message.from, message.to),
                      tree_class(message, value));
      }
    }
  }
  for (const auto& [one, other, tree] : links) {
    const Point a = at(one);
    const Point b = at(other);
    text +=
        fmt::format("<path class=\"link{}\" d=\"M{:.0f} {:.0f}L{:.0f} {:.0f}\"/>", tree, a.x, a.y, b.x, b.y);
  }
  for (const Message& message : busiest.messages) {
    text += fmt::format("<path class=\"arrow{}{}\" d=\"{}\"/>", message.reduces ? "" : " stores",
                        tree_class(message, 0), arrow(at(message.from), at(message.to), radius));
  }
  for (int rank = 0; rank < picture.spec.size; ++rank) {
    const Point place = at(rank);
    text += fmt::format("<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"{}\"/>", place.x, place.y, radius);
    if (radius < 6) continue;
    text += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", place.x, place.y + radius / 2.4, rank);
  }
  return text + "</svg>";
}

}  // namespace kolo::draw
