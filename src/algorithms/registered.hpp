// The algorithms that there are.
#pragma once

#include "algorithms/algorithm.hpp"

/// A new algorithm is a file of its own and a line here. Ordered by collective. The first of each collective
/// is a candidate with any number of ranks.
#define KOLO_ALGORITHMS(X)             \
  X(all_reduce_ring)                   \
  X(all_reduce_central)                \
  X(all_reduce_naive)                  \
  X(all_reduce_direct)                 \
  X(all_reduce_parameter_server)       \
  X(all_reduce_bidirectional_ring)     \
  X(all_reduce_circulant)              \
  X(all_reduce_butterfly)              \
  X(all_reduce_recursive_doubling)     \
  X(all_reduce_halving_doubling)       \
  X(all_reduce_binary_blocks)          \
  X(all_reduce_torus)                  \
  X(all_reduce_binomial)               \
  X(all_reduce_k_nomial)               \
  X(all_reduce_double_tree)            \
  X(all_reduce_hierarchical)           \
  X(reduce_scatter_ring)               \
  X(reduce_scatter_direct)             \
  X(reduce_scatter_bidirectional_ring) \
  X(reduce_scatter_circulant)          \
  X(reduce_scatter_butterfly)          \
  X(all_gather_ring)                   \
  X(all_gather_direct)                 \
  X(all_gather_bidirectional_ring)     \
  X(all_gather_circulant)              \
  X(all_gather_butterfly)              \
  X(broadcast_binomial)                \
  X(broadcast_direct)                  \
  X(broadcast_k_nomial)                \
  X(broadcast_chain)                   \
  X(broadcast_scatter_all_gather)      \
  X(reduce_binomial)                   \
  X(reduce_direct)                     \
  X(reduce_k_nomial)                   \
  X(reduce_chain)                      \
  X(scatter_direct)                    \
  X(scatter_binomial)                  \
  X(gather_direct)                     \
  X(gather_binomial)                   \
  X(all_to_all_direct)                 \
  X(all_to_all_direct_in_place)        \
  X(all_to_all_bruck)                  \
  X(scan_recursive_doubling)           \
  X(barrier_dissemination)             \
  X(barrier_tree)                      \
  X(barrier_recursive_doubling)

namespace kolo::algorithms {

#define KOLO_DECLARE(name) extern const Algorithm name;
KOLO_ALGORITHMS(KOLO_DECLARE)
#undef KOLO_DECLARE

}  // namespace kolo::algorithms
