// The one file that kolo wrote before 0.2: libtorch's archives in an archive.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/parts.hpp"

namespace kolo::train {

struct OldFile {
  std::uint64_t step = 0;
  std::int64_t ranks = 0;  ///< of which it has own states
  torch::serialize::InputArchive shared;
  std::optional<torch::serialize::InputArchive> own;  ///< of this rank, if there were as many
};
/// Throws std::runtime_error, with the path, for what cannot be read or is no checkpoint.
OldFile read_old_file(const std::string& path, int rank, int ranks);

torch::serialize::InputArchive archive_of(const std::string& text);
/// Each loads an archive of an old file. Throws std::exception where it is of another module, optimizer or
/// hook: where a tensor has another shape.
void load_old(torch::nn::Module& module, torch::serialize::InputArchive& archive);
/// An optimizer's archive; or that of shards, by names, in memory's order.
void load_old(torch::optim::Optimizer& optimizer, const PlacedParameters& placed,
              torch::serialize::InputArchive& archive);
void load_old(GradientHook& hook, torch::serialize::InputArchive& archive);

}  // namespace kolo::train
