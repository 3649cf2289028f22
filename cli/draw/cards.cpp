#include "draw/cards.hpp"

#include <algorithm>
#include <cmath>

namespace kolo::draw {
namespace {

/// Room for arrows.
constexpr double kAcross = 11;
constexpr double kDown = 17;

std::vector<Card> cards_of_width(const Picture& picture, double width, double height, double header,
                                 double card_width) {
  const double card_height = card_width * grid_of(picture).height + header;
  const Layout& layout = picture.layout;
  // Positions within boxes already keep a distance to the edge.
  const double inset = layout.boxes.empty() ? 1 : 0;
  std::vector<Card> cards;
  for (const Point& place : layout.places) {
    const double x = place.x * (width - inset * card_width) + inset * card_width / 2;
    const double y = place.y * (height - inset * card_height) + inset * card_height / 2;
    cards.push_back({{x - card_width / 2, y - card_height / 2}, card_width, card_height});
  }
  return cards;
}

bool apart(const std::vector<Card>& cards) {
  for (std::size_t i = 0; i < cards.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (std::abs(cards[i].low.x - cards[j].low.x) < cards[i].width + kAcross &&
          std::abs(cards[i].low.y - cards[j].low.y) < cards[i].height + kDown) {
        return false;
      }
    }
  }
  return true;
}

/// The point where the ray from the card's centre towards `to` leaves the card.
Point edge(const Card& card, const Point& to) {
  const Point from = card.centre();
  const double dx = to.x - from.x;
  const double dy = to.y - from.y;
  const double across = dx == 0 ? 1e9 : card.width / 2 / std::abs(dx);
  const double down = dy == 0 ? 1e9 : card.height / 2 / std::abs(dy);
  const double share = std::min({across, down, 1.0});
  return {from.x + share * dx, from.y + share * dy};
}

/// Whether the line from a to b goes through the middle of the card; a corner does not matter.
bool is_crossed(const Card& card, const Point& a, const Point& b) {
  constexpr int kSamples = 40;
  for (int i = 1; i < kSamples; ++i) {
    const double share = static_cast<double>(i) / kSamples;
    const double x = a.x + share * (b.x - a.x) - card.low.x;
    const double y = a.y + share * (b.y - a.y) - card.low.y;
    const double right = x / card.width;
    const double down = y / card.height;
    if (right > 0.25 && right < 0.75 && down > 0.25 && down < 0.75) return true;
  }
  return false;
}

}  // namespace

Grid grid_of(const Picture& picture) {
  const std::size_t parts = picture.frames.parts;
  const auto ranks = static_cast<std::size_t>(picture.spec.size);
  const auto ratio = [](std::size_t rows, std::size_t columns) {
    return std::clamp(static_cast<double>(rows) / static_cast<double>(columns), 0.28, 1.0);
  };
  if (picture.slot_per_rank) return {ranks, parts, ratio(parts, ranks)};
  const auto square = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(parts))));
  if (parts == 1) return {1, 1, 0.45};
  const std::size_t columns = parts <= 4 ? parts : square;
  const std::size_t rows = (parts + columns - 1) / columns;
  return {columns, rows, ratio(rows, columns)};
}

std::vector<Card> place_cards(const Picture& picture, double width, double height, double header) {
  double low = 4;
  double high = std::min(width, height) / 3;
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + high) / 2;
    (apart(cards_of_width(picture, width, height, header, middle)) ? low : high) = middle;
  }
  return cards_of_width(picture, width, height, header, low);
}

Arrow arrow_between(const std::vector<Card>& cards, int from, int to, double width, double height) {
  const Card& start = cards[static_cast<std::size_t>(from)];
  const Card& end = cards[static_cast<std::size_t>(to)];
  const Point a = start.centre();
  const Point b = end.centre();
  const double length = std::max(std::hypot(b.x - a.x, b.y - a.y), 1e-9);
  const Point along{(b.x - a.x) / length, (b.y - a.y) / length};
  const auto beside = [&](const Point& point, double right, double forward) {
    return Point{point.x - along.y * right + along.x * forward,
                 point.y + along.x * right + along.y * forward};
  };
  const Point middle{(a.x + b.x) / 2, (a.y + b.y) / 2};
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const bool own = static_cast<int>(rank) == from || static_cast<int>(rank) == to;
    if (own || !is_crossed(cards[rank], a, b)) continue;
    // A quadratic curve deviates half as far as its control point.
    const double out = std::abs(along.y) * start.width + std::abs(along.x) * start.height + 2 * kAcross;
    const Point top = beside(middle, out / 2, 0);
    const bool inside = std::min(top.x, top.y) >= 0 && top.x <= width && top.y <= height;
    const Point bend = beside(middle, inside ? out : -out - kAcross, 0);
    return {edge(start, bend), bend, edge(end, bend)};
  }
  constexpr double kAside = 3;
  return {beside(edge(start, b), kAside, 2), beside(middle, kAside, 0), beside(edge(end, a), kAside, -2)};
}

}  // namespace kolo::draw
