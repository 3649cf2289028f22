// Clipping gradients by their global norm, sparse ones too.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace kolo {

/// Scales all gradients so that their norm is at most `max_norm`, and returns the norm that they had. The
/// norm is the root of the sum of all squared elements (R. Pascanu, T. Mikolov, Y. Bengio: "On the Difficulty
/// of Training Recurrent Neural Networks", ICML 2013, algorithm 1). A parameter that is given several times
/// (tied weights) counts once; of sparse gradients the rows that there are count, each once; undefined ones
/// do not. Call it after backward(): averages are the same on all ranks, and so is the norm, bit for bit, on
/// machines with other vector units and numbers of threads too, as it is added up in float64 in a fixed
/// order. An infinite or NaN norm leaves all gradients as they are. Throws InvalidArgumentError unless
/// `max_norm` is positive and finite, for gradients of complex numbers or not on the CPU, where
/// overlap_forward makes the steps, and for shards, stages of a pipeline and slices of layers, of which each
/// rank has others: names what to call for those.
double clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm);

}  // namespace kolo
