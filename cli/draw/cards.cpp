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
  // The places within boxes keep off the edge by themselves.
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

/// Where the ray from the card's centre towards `to` leaves it.
Point edge(const Card& card, const Point& to) {
  const Point from = card.centre();
  const double dx = to.x - from.x;
  const double dy = to.y - from.y;
  const double across = dx == 0 ? 1e9 : card.width / 2 / std::abs(dx);
  const double down = dy == 0 ? 1e9 : card.height / 2 / std::abs(dy);
  const double share = std::min({across, down, 1.0});
  return {from.x + share * dx, from.y + share * dy};
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

Arrow arrow_between(const Card& from, const Card& to) {
  const Point a = from.centre();
  const Point b = to.centre();
  const double length = std::max(std::hypot(b.x - a.x, b.y - a.y), 1e-9);
  const Point aside{-(b.y - a.y) / length * 3, (b.x - a.x) / length * 3};
  const Point tail = edge(from, b);
  const Point head = edge(to, a);
  const Point back{(b.x - a.x) / length * 2, (b.y - a.y) / length * 2};
  return {{tail.x + aside.x + back.x, tail.y + aside.y + back.y},
          {head.x + aside.x - back.x, head.y + aside.y - back.y}};
}

}  // namespace kolo::draw
