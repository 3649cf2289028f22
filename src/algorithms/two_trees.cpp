#include "algorithms/two_trees.hpp"

#include <bit>
#include <utility>

namespace kolo::algorithms {
namespace {

constexpr int kNone = -1;

/// The parent of a place in the tree of places 1 .. size; 0: the root. A place with k trailing zeros has its
/// children 2^(k-1) below and above it.
int parent_of(int place, int size) {
  if (place == static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))) return 0;
  const int bit = place & -place;
  const int above = place + bit;
  return (place & (2 * bit)) != 0 || above > size ? place - bit : above;
}

}  // namespace

TwoTrees::TwoTrees(int size) {
  for (int rank = 0; rank < size; ++rank) parents_[0].push_back(parent_of(rank + 1, size) - 1);
  for (int rank = 0; rank < size; ++rank) {
    const bool turned = size % 2 == 0;
    const int parent = parent_of(turned ? size - rank : (rank + 1) % size + 1, size);
    parents_[1].push_back(parent == 0 ? kNone : turned ? size - parent : (parent + size - 2) % size);
  }
  find_colours();
}

std::vector<int> TwoTrees::children(unsigned tree, int rank) const {
  std::vector<int> result;
  for (std::size_t child = 0; child < parents_[tree].size(); ++child) {
    if (parents_[tree][child] == rank) result.push_back(static_cast<int>(child));
  }
  return result;
}

int TwoTrees::depth(unsigned tree, int rank) const {
  int edges = 0;
  for (; parent(tree, rank) != kNone; rank = parent(tree, rank)) ++edges;
  return edges;
}

void TwoTrees::find_colours() {
  // An edge must differ from at most two edges: the other one at each of its ends. So edges form chains and
  // rings. Rings have an even number of edges, because both kinds of difference alternate. So colours
  // alternate along each chain and ring.
  using Edge = std::pair<unsigned, std::size_t>;  // tree, child
  const std::size_t size = parents_[0].size();
  std::vector<std::vector<Edge>> below(size);
  for (const unsigned tree : {0u, 1u}) {
    colours_[tree].assign(size, kNone);
    for (std::size_t child = 0; child < size; ++child) {
      const int parent = parents_[tree][child];
      if (parent != kNone) below[static_cast<std::size_t>(parent)].emplace_back(tree, child);
    }
  }
  for (const auto& edges : below) {
    for (const Edge& start : edges) {
      std::vector<std::pair<Edge, int>> open = {{start, 0}};
      while (!open.empty()) {
        const auto [edge, colour] = open.back();
        const auto [tree, child] = edge;
        open.pop_back();
        if (colours_[tree][child] != kNone) continue;
        colours_[tree][child] = colour;
        if (parents_[1 - tree][child] != kNone) open.push_back({{1 - tree, child}, 1 - colour});
        for (const Edge& other : below[static_cast<std::size_t>(parents_[tree][child])]) {
          if (other != edge) open.push_back({other, 1 - colour});
        }
      }
    }
  }
}

}  // namespace kolo::algorithms
