// Layout: the positions of the ranks in a picture, derived from the pairs of senders and receivers.
#pragma once

#include <string>
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

/// A pair of ranks that exchange messages, and the tree that it belongs to; 0 if there are not two trees.
struct Link {
  int one = 0;
  int other = 0;
  int tree = 0;
};

/// Places in the unit square, y downwards. A value.
struct Layout {
  std::string name;           ///< "ring", "star", "tree", "two trees", "hypercube", "grid", "hosts", "circle"
  std::vector<Point> places;  ///< of each rank
  std::vector<Box> boxes;     ///< of hosts, where there are several
  std::vector<int> trees = {};   ///< "two trees": the tree, 0 or 1, of each part, 0 of the first; else empty
  std::vector<Link> links = {};  ///< drawn in the background; none if there are too many
};

/// `hosts` as ScheduleSpec::hosts; `root`: -1 where the collective has none.
Layout layout_of(const Frames& frames, const std::vector<int>& hosts, int root);

}  // namespace kolo::draw
