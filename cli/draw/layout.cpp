#include "draw/layout.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>
#include <set>
#include <utility>

namespace kolo::draw {
namespace {

/// The pairs of ranks that exchange messages, in either direction.
class Neighbours {
 public:
  explicit Neighbours(const Frames& frames) : of_(static_cast<std::size_t>(frames.ranks())) {
    for (const Frame& frame : frames.frames) {
      for (const Message& message : frame.messages) {
        of_[at(message.from)].insert(message.to);
        of_[at(message.to)].insert(message.from);
      }
    }
  }

  Neighbours(int ranks, const std::set<std::pair<int, int>>& pairs) : of_(static_cast<std::size_t>(ranks)) {
    for (const auto& [one, other] : pairs) {
      of_[at(one)].insert(other);
      of_[at(other)].insert(one);
    }
  }

  int ranks() const { return static_cast<int>(of_.size()); }
  const std::set<int>& of(int rank) const { return of_[at(rank)]; }
  std::size_t pairs() const {
    std::size_t ends = 0;
    for (const auto& some : of_) ends += some.size();
    return ends / 2;
  }
  bool is_tree() const { return pairs() + 1 == of_.size() && walk(0).size() == of_.size(); }
  bool every(const std::function<bool(int, int)>& holds) const {
    for (int rank = 0; rank < ranks(); ++rank) {
      for (const int other : of(rank)) {
        if (!holds(rank, other)) return false;
      }
    }
    return true;
  }
  /// Breadth-first search from `start`: the ranks, each with the rank from which it was reached.
  std::vector<std::pair<int, int>> walk(int start) const {
    std::vector<std::pair<int, int>> reached = {{start, -1}};
    std::vector<bool> seen(of_.size(), false);
    seen[at(start)] = true;
    for (std::size_t next = 0; next < reached.size(); ++next) {
      const int from = reached[next].first;
      for (const int rank : of(from)) {
        if (seen[at(rank)]) continue;
        seen[at(rank)] = true;
        reached.emplace_back(rank, from);
      }
    }
    return reached;
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  std::vector<std::set<int>> of_;
};

double share(std::size_t index, std::size_t count) {
  return count < 2 ? 0.5 : static_cast<double>(index) / static_cast<double>(count - 1);
}

/// The ranks of `order` clockwise, the first on top; other ranks are in the middle. Many ranks stand around a
/// rectangle, where each has more room than on a circle.
std::vector<Point> circle(const std::vector<int>& order, int ranks) {
  constexpr std::size_t kMostOnCircle = 16;
  constexpr double kWide = 0.64;  // of the ranks, those on the two long sides
  std::vector<Point> places(static_cast<std::size_t>(ranks), Point{0.5, 0.5});
  const std::size_t count = order.size();
  const std::size_t across = static_cast<std::size_t>(std::lround(kWide * static_cast<double>(count) / 2));
  const std::size_t down = count / 2 - across;
  for (std::size_t i = 0; i < count; ++i) {
    Point& place = places[static_cast<std::size_t>(order[i])];
    if (count <= kMostOnCircle) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(count);
      place = {0.5 + 0.5 * std::sin(angle), 0.5 - 0.5 * std::cos(angle)};
      continue;
    }
    const auto along = [&](std::size_t first, std::size_t steps) {
      return static_cast<double>(i - first) / static_cast<double>(steps);
    };
    if (i < across) {
      place = {along(0, across), 0};
    } else if (i < across + down) {
      place = {1, along(across, down)};
    } else if (i < 2 * across + down) {
      place = {1 - along(across + down, across), 1};
    } else {  // an odd number leaves one more rank to this side
      place = {0, 1 - along(2 * across + down, count - 2 * across - down)};
    }
  }
  return places;
}

std::vector<int> by_number(int ranks) {
  std::vector<int> order;
  for (int rank = 0; rank < ranks; ++rank) order.push_back(rank);
  return order;
}

/// The order of the ranks along a ring or a chain; empty if the messages form neither.
std::vector<int> chain_order(const Frames& frames, const Neighbours& neighbours) {
  const int ranks = neighbours.ranks();
  int start = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (neighbours.of(rank).size() > 2) return {};
  }
  if (neighbours.walk(0).size() != static_cast<std::size_t>(ranks)) return {};
  // A chain starts at an end, a ring at any rank.
  for (int rank = ranks; rank-- > 0;) {
    if (neighbours.of(rank).size() == 1) start = rank;
  }
  std::vector<int> order = {start};
  int previous = -1;
  while (order.size() < static_cast<std::size_t>(ranks)) {
    int next = -1;
    for (const int rank : neighbours.of(order.back())) {
      if (rank != previous) next = rank;
    }
    if (previous < 0) {  // in the direction of its first message
      for (const Frame& frame : frames.frames) {
        const auto sent = std::ranges::find(frame.messages, start, &Message::from);
        if (sent == frame.messages.end()) continue;
        next = sent->to;
        break;
      }
    }
    previous = order.back();
    order.push_back(next);
  }
  return order;
}

/// Whether messages go along all edges of a cube of 3 or more dimensions. (One of 2 is a ring.)
bool is_hypercube(const Neighbours& neighbours) {
  const auto ranks = static_cast<unsigned>(neighbours.ranks());
  if (ranks < 8 || !std::has_single_bit(ranks)) return false;
  if (neighbours.pairs() != ranks * static_cast<unsigned>(std::countr_zero(ranks)) / 2) return false;
  return neighbours.every(
      [](int one, int other) { return std::has_single_bit(static_cast<unsigned>(one ^ other)); });
}

/// Of 8 ranks a cube in perspective. Of more ranks a grid in which ranks whose numbers differ in one bit
/// share a row or a column, most of them side by side (F. Gray, US patent 2632058, 1953).
std::vector<Point> hypercube(int ranks) {
  std::vector<Point> places;
  const unsigned bits = static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(ranks)));
  const unsigned columns = 1u << ((bits + 1) / 2);
  const unsigned rows = 1u << (bits / 2);
  const auto place_in_gray_code = [](unsigned code) {
    for (unsigned shift = 1; shift < 32; shift *= 2) code ^= code >> shift;
    return static_cast<std::size_t>(code);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    if (ranks == 8) {
      const double right = rank & 1 ? 1 : 0;
      const double down = rank & 2 ? 1 : 0;
      const double back = rank & 4 ? 1 : 0;
      // The front face is to the lower left of the back face.
      places.push_back({0.66 * right + 0.34 * back, 0.68 * down + 0.32 * (1 - back)});
    } else {
      const auto number = static_cast<unsigned>(rank);
      places.push_back({share(place_in_gray_code(number % columns), columns),
                        share(place_in_gray_code(number / columns), rows)});
    }
  }
  return places;
}

/// Number of columns of the most nearly square grid in which each message stays in a row or a column, and
/// both kinds of messages occur; 0: there is none.
int grid_columns(const Neighbours& neighbours) {
  const int ranks = neighbours.ranks();
  int best = 0;
  for (int columns = 2; columns * 2 <= ranks; ++columns) {
    if (ranks % columns != 0) continue;
    bool along_rows = false;
    bool along_columns = false;
    const bool fits = neighbours.every([&](int one, int other) {
      const bool row = one / columns == other / columns;
      const bool column = one % columns == other % columns;
      along_rows |= row;
      along_columns |= column;
      return row || column;
    });
    const auto from_square = [&](int c) { return std::abs(c - ranks / c); };
    if (!fits || !along_rows || !along_columns) continue;
    if (best == 0 || from_square(columns) <= from_square(best)) best = columns;
  }
  return best;
}

std::vector<Point> grid(int ranks, int columns) {
  const auto wide = static_cast<std::size_t>(columns);
  const std::size_t rows = (static_cast<std::size_t>(ranks) + wide - 1) / wide;
  std::vector<Point> places;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    places.push_back({share(rank % wide, wide), share(rank / wide, rows)});
  }
  return places;
}

/// The first rank that holds the complete part; 0 if none does.
int top_of(const Frames& frames, std::uint32_t part) {
  for (const Frame& frame : frames.frames) {
    for (std::size_t rank = 0; rank < frame.cells.size(); ++rank) {
      const std::vector<Cell>& cells = frame.cells[rank];
      if (part < cells.size() && cells[part].done) return static_cast<int>(rank);
    }
  }
  return 0;
}

/// Leaves side by side, every parent above the middle of its children.
std::vector<Point> tree(const Neighbours& neighbours, int top) {
  std::vector<Point> places(static_cast<std::size_t>(neighbours.ranks()));
  double leaves = 0;
  double depth = 0;
  const std::function<double(int, int, double)> put = [&](int rank, int parent, double level) {
    depth = std::max(depth, level);
    double low = -1;
    double high = 0;
    for (const int child : neighbours.of(rank)) {
      if (child == parent) continue;
      high = put(child, rank, level + 1);
      if (low < 0) low = high;
    }
    const double x = low < 0 ? leaves++ : (low + high) / 2;
    places[static_cast<std::size_t>(rank)] = {x, level};
    return x;
  };
  put(top, -1, 0);
  for (Point& place : places) {
    place.x = leaves < 2 ? 0.5 : place.x / (leaves - 1);
    place.y = depth > 0 ? place.y / depth : 0.5;
  }
  return places;
}

/// Pairs of ranks, the smaller one first, and the parts that travel over exactly these.
struct Web {
  std::set<std::pair<int, int>> pairs;
  std::vector<std::uint32_t> parts;
};

/// In the order of their first parts.
std::vector<Web> webs_of(const Frames& frames) {
  std::vector<std::set<std::pair<int, int>>> pairs(frames.parts);
  for (const Frame& frame : frames.frames) {
    for (const Message& message : frame.messages) {
      for (const Value& value : message.values)
        pairs[value.part].insert(std::minmax(message.from, message.to));
    }
  }
  std::vector<Web> webs;
  for (std::uint32_t part = 0; part < frames.parts; ++part) {
    const auto found = std::ranges::find(webs, pairs[part], &Web::pairs);
    (found != webs.end() ? *found : webs.emplace_back(Web{pairs[part], {}})).parts.push_back(part);
  }
  return webs;
}

/// Depth of each rank that has children below `top`; -1 for a leaf.
std::vector<int> depths_of_inner(const Neighbours& tree, int top) {
  std::vector<int> depths(static_cast<std::size_t>(tree.ranks()), -1);
  depths[static_cast<std::size_t>(top)] = 0;
  std::vector<int> result = depths;
  for (const auto& [rank, parent] : tree.walk(top)) {
    if (parent < 0) continue;
    const int depth = depths[static_cast<std::size_t>(parent)] + 1;
    depths[static_cast<std::size_t>(rank)] = depth;
    if (tree.of(rank).size() > 1) result[static_cast<std::size_t>(rank)] = depth;
  }
  return result;
}

/// Two trees over all ranks, each of which some parts travel in. Ranks stand in columns by number. The inner
/// ranks of one tree are in the upper half, its root on top; those of the other are in the lower half, its
/// root at the bottom. nullopt: there are no two trees, or a rank is inner in both.
std::optional<Layout> two_trees(const Frames& frames) {
  const int ranks = frames.ranks();
  const std::vector<Web> webs = webs_of(frames);
  if (ranks < 3 || webs.size() != 2) return std::nullopt;
  Layout layout{
      "two trees", std::vector<Point>(static_cast<std::size_t>(ranks)), {}, std::vector<int>(frames.parts)};
  std::vector<std::vector<int>> depths;
  for (const auto& [pairs, parts] : webs) {
    const Neighbours tree(ranks, pairs);
    if (!tree.is_tree()) return std::nullopt;
    for (const std::uint32_t part : parts) layout.trees[part] = static_cast<int>(depths.size());
    const int top = top_of(frames, parts[0]);
    depths.push_back(depths_of_inner(tree, top));
    for (const auto& [one, other] : pairs) {
      layout.links.push_back({one, other, static_cast<int>(depths.size()) - 1});
    }
  }
  for (std::size_t rank = 0; rank < layout.places.size(); ++rank) {
    if (depths[0][rank] >= 0 && depths[1][rank] >= 0) return std::nullopt;
  }
  const int levels[] = {std::ranges::max(depths[0]) + 1, std::ranges::max(depths[1]) + 1};
  const int lines = levels[0] + levels[1];
  for (std::size_t rank = 0; rank < layout.places.size(); ++rank) {
    // A rank that is a leaf of both trees stands in the middle.
    const double line = depths[0][rank] >= 0   ? depths[0][rank]
                        : depths[1][rank] >= 0 ? lines - 1 - depths[1][rank]
                                               : levels[0] - 0.5;
    layout.places[rank] = {share(rank, layout.places.size()), line / (lines - 1)};
  }
  return layout;
}

/// Boxes of hosts in rows; in each box the host's ranks in rows.
Layout by_hosts(const std::vector<int>& hosts) {
  Layout layout{"hosts", std::vector<Point>(hosts.size()), {}};
  const auto side = [](double count) { return static_cast<std::size_t>(std::ceil(std::sqrt(count))); };
  const auto count = static_cast<std::size_t>(std::ranges::max(hosts)) + 1;
  const std::size_t wide = count <= 3 ? count : side(static_cast<double>(count));
  const std::size_t rows = (count + wide - 1) / wide;
  constexpr double kGap = 0.04;
  for (std::size_t host = 0; host < count; ++host) {
    const double width = 1.0 / static_cast<double>(wide);
    const double height = 1.0 / static_cast<double>(rows);
    const Point low{static_cast<double>(host % wide) * width + kGap / 2,
                    static_cast<double>(host / wide) * height + kGap / 2};
    const Point high{low.x + width - kGap, low.y + height - kGap};
    layout.boxes.push_back({static_cast<int>(host), low, high});
    const auto local = static_cast<std::size_t>(std::ranges::count(hosts, static_cast<int>(host)));
    // Boxes side by side are higher than wide.
    const std::size_t columns = count <= 3 ? std::max<std::size_t>(1, side(static_cast<double>(local) / 4))
                                           : side(static_cast<double>(local));
    const std::size_t lines = columns == 0 ? 1 : (local + columns - 1) / columns;
    std::size_t index = 0;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] != static_cast<int>(host)) continue;
      const auto middle = [](std::size_t at, std::size_t of) {
        return (static_cast<double>(at) + 0.5) / static_cast<double>(of);
      };
      layout.places[rank] = {low.x + (high.x - low.x) * middle(index % columns, columns),
                             low.y + (high.y - low.y) * middle(index / columns, lines)};
      ++index;
    }
  }
  return layout;
}

Layout arranged(const Frames& frames, const Neighbours& neighbours, const std::vector<int>& hosts, int root) {
  const int ranks = neighbours.ranks();
  if (!hosts.empty() && std::ranges::max(hosts) > 0) return by_hosts(hosts);
  if (ranks == 1) return {"circle", {{0.5, 0.5}}, {}};
  if (ranks == 2) return {"ring", {{0, 0.5}, {1, 0.5}}, {}};
  if (std::optional<Layout> trees = two_trees(frames)) return *std::move(trees);
  if (const std::vector<int> order = chain_order(frames, neighbours); !order.empty()) {
    return {"ring", circle(order, ranks), {}};
  }
  if (neighbours.is_tree()) {
    const int top = root >= 0 ? root : top_of(frames, 0);
    if (neighbours.of(top).size() < static_cast<std::size_t>(ranks - 1)) {
      return {"tree", tree(neighbours, top), {}};
    }
    std::vector<int> around = by_number(ranks);
    std::erase(around, top);
    return {"star", circle(around, ranks), {}};
  }
  if (is_hypercube(neighbours)) return {"hypercube", hypercube(ranks), {}};
  if (const int columns = grid_columns(neighbours); columns > 0) return {"grid", grid(ranks, columns), {}};
  return {"circle", circle(by_number(ranks), ranks), {}};
}

}  // namespace

Layout layout_of(const Frames& frames, const std::vector<int>& hosts, int root) {
  const Neighbours neighbours(frames);
  Layout layout = arranged(frames, neighbours, hosts, root);
  if (!layout.links.empty() || neighbours.pairs() > 2 * layout.places.size()) return layout;
  for (int rank = 0; rank < neighbours.ranks(); ++rank) {
    for (const int other : neighbours.of(rank)) {
      if (rank < other) layout.links.push_back({rank, other});
    }
  }
  return layout;
}

}  // namespace kolo::draw
