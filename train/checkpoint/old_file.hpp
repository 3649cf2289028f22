// The one file that kolo wrote before 0.2: libtorch's archives in an archive.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/parts.hpp"

namespace kolo::train {

struct OldFile {
  std::uint64_t step = 0;
  std::string shared;              ///< an archive
  std::vector<std::string> ranks;  ///< an archive of each rank
};
/// Throws std::runtime_error, with the path, for what cannot be read or is no checkpoint.
OldFile read_old_file(const std::string& path);

torch::serialize::InputArchive archive_of(const std::string& text);
/// A module's archive, with the layouts of its gradients. Throws std::runtime_error where a tensor has
/// another shape.
void load_old_module(torch::nn::Module& module, torch::serialize::InputArchive& archive);
/// An optimizer's archive; or that of shards, by names, in memory's order.
void load_old_optimizer(torch::optim::Optimizer& optimizer, const NameParameter& parameter,
                        torch::serialize::InputArchive& archive);

}  // namespace kolo::train
