// SumOverRanks: norms of layers that are spread over ranks. Needs no libtorch.
#pragma once

#include <functional>
#include <vector>

namespace kolo {

/// Replaces each number by its sum over the ranks that hold parts of one model. Optimizers that take norms of
/// layers (LARS, LAMB) call it once a step, in step()'s thread, with this rank's sums of squares: two for
/// each parameter, in the order of the groups, on each rank alike. For shards that is
///
///     [&](std::vector<double>& squares) { communicator.all_reduce(kolo::Buffer(squares)); }
///
/// Where a rank has whole layers, as under DistributedDataParallel, leave it empty; shards and slices of
/// layers are then refused. What it throws leaves step(), and no parameter has moved.
using SumOverRanks = std::function<void(std::vector<double>& squares)>;

}  // namespace kolo
