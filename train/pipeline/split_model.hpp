// Cuts a list of layers into the stages of a pipeline.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "kolo/train/pipeline_parallel.hpp"
#include "pipeline/schedule.hpp"

namespace kolo::train {

/// As many layers in each of `stages` parts, or one more in the first ones.
std::vector<std::int64_t> even_borders(std::int64_t layers, int stages);

/// What is wrong with borders between so many stages, in words; empty if nothing is.
std::string problem_of_borders(const std::vector<std::int64_t>& borders, std::int64_t layers, int stages);

/// The stages of this rank. The layers keep their names.
std::vector<PipelineStage> stages_of(const torch::nn::Sequential& layers,
                                     const std::vector<std::int64_t>& borders, const PipelineShape& shape,
                                     int rank);

/// The first parameter that several stages use, with the names under which they do, in words, unless a tie
/// names it; empty if there is none.
std::string problem_of_shared(const torch::nn::Sequential& layers, const std::vector<std::int64_t>& borders,
                              const std::vector<PipelineTie>& ties);

}  // namespace kolo::train
