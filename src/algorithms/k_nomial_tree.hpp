// KNomialTree: a rank's place in the k-nomial trees of broadcast and reduce; radix 2 is the binomial tree.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace kolo::algorithms {

/// Ranks are counted from the root, v = (rank - root) mod N, and written with digits of base `radix`. v's
/// parent is v with its lowest nonzero digit cleared. v's children are v with one of the digits below that
/// set. So the subtree of a child at digit k is the child and all ranks that differ from it only in the lower
/// k digits.
struct KNomialTree {
  KNomialTree(const ScheduleSpec& spec, int radix);

  int parent = -1;            ///< -1: the root
  std::vector<int> children;  ///< smallest subtree first, then by v
};

inline constexpr int kBinomial = 2;  ///< the radix of the binomial tree

/// Every rank adds up its subtree and sends the sum to its parent. In rank order if the root is 0.
schedule::Schedule k_nomial_reduce(const ScheduleSpec& spec, int radix);
/// Every rank passes the data on to its children.
schedule::Schedule k_nomial_broadcast(const ScheduleSpec& spec, int radix);

/// Children of the root, which is also the number of steps of reduce and broadcast. A rank at digit k has at
/// most radix - 1 children at each lower digit, so its subtree is done while the root serves its own lower
/// digits.
std::uint64_t k_nomial_children(std::uint64_t ranks, int radix);
inline constexpr std::string_view kKNomialSteps = "(R-1) L + floor((N-1) / R^L), L = floor(log_R (N-1))";

/// For all k-nomial trees.
inline constexpr std::array<Parameter, 1> kRadixParameters = {
    {{"radix", "children of a rank at each digit, plus 1: the base R of the tree; else 4"}}};
inline constexpr std::string_view kKNomialSource =
    "R. L. Graham, M. Gorentla Venkata, J. Ladd, P. Shamis, I. Rabinovitz, V. Filipov, G. Shainer: Cheetah: "
    "a framework for scalable hierarchical collective operations, CCGrid 2011, k-nomial trees";
inline constexpr std::array<std::string_view, 3> kTriedRadices = {"radix=2", "radix=3", "radix=8"};
int radix_of(const ScheduleSpec& spec);
std::string radix_objection(const ScheduleSpec& spec);

}  // namespace kolo::algorithms
