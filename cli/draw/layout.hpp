// Layout: the positions of the ranks in a picture, derived from the pairs of senders and receivers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "draw/frames.hpp"

namespace kolo::draw {

struct Point {
  double x = 0;
  double y = 0;
};

/// A host and the corners of its box.
struct Box {
  int host = 0;
  Point low;
  Point high;
};

/// Places in the unit square, y downwards. A value.
struct Layout {
  std::string name;           ///< "ring", "star", "tree", "hypercube", "grid", "hosts", "circle"
  std::vector<Point> places;  ///< of each rank
  std::vector<Box> boxes;     ///< of hosts, where there are several
  /// The pairs that exchange messages, drawn in the background; none if there are too many.
  std::vector<std::pair<int, int>> links = {};
};

/// `hosts` as ScheduleSpec::hosts; `root`: -1 where the collective has none.
Layout layout_of(const Frames& frames, const std::vector<int>& hosts, int root);

}  // namespace kolo::draw
