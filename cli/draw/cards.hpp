// Cards: the rectangles that stand for ranks, as large as they may be without touching.
#pragma once

#include <cstddef>
#include <vector>

#include "draw/picture.hpp"

namespace kolo::draw {

/// The cells on a rank's card: a row for each chunk with a slot for each rank, or cells row by row.
struct Grid {
  std::size_t columns = 1;
  std::size_t rows = 1;
  double height = 1;  ///< of the whole grid, if its width is 1
};
Grid grid_of(const Picture& picture);

struct Card {
  Point low;  ///< upper left corner
  double width = 0;
  double height = 0;

  Point centre() const { return {low.x + width / 2, low.y + height / 2}; }
};

/// A card for each rank, in an area `width` by `height`, each with `header` above its cells.
std::vector<Card> place_cards(const Picture& picture, double width, double height, double header);

/// An arrow between two cards, from edge to edge, shifted to its right to leave room for the opposite arrow.
/// If another card is in its way, it is a quadratic curve within the area.
struct Arrow {
  Point tail;
  Point bend;  ///< the curve's control point
  Point head;
};
Arrow arrow_between(const std::vector<Card>& cards, int from, int to, double width, double height);

}  // namespace kolo::draw
