// Checkpoint: what training needs to go on after all ranks have ended, in one file.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/hooks.hpp"

namespace kolo {

namespace train {

/// What has save() and load() for libtorch's archives.
template <typename T>
concept SavesAndLoads = requires(T& thing, torch::serialize::OutputArchive& out,
                                 torch::serialize::InputArchive& in) {
  thing.save(out);
  thing.load(in);
};

}  // namespace train

/// What has a state that an archive of libtorch can hold, beside models and optimizers: a sampler, an object
/// of the program's own.
template <typename T>
concept Archived = train::SavesAndLoads<T> && !std::derived_from<T, torch::nn::Module> &&
                   !std::derived_from<T, torch::optim::Optimizer>;

/// The things whose states a file holds, each under a name. What is the same on all ranks (models,
/// optimizers, samplers) is saved by rank 0; gradient hooks, the state of libtorch's random numbers, and what
/// add_own() is given are each rank's own. Not thread-safe; the things must outlive it.
///
///     kolo::Checkpoint checkpoint;
///     checkpoint.add("model", *net).add("optimizer", optimizer).add("sampler", sampler);
///     std::uint64_t step = checkpoint.resume("run.pt", communicator);
class Checkpoint {
 public:
  /// Puts a thing's state into the file from now on, under this name. All ranks add the same things. Throws
  /// InvalidArgumentError where the name is taken; "random numbers" always is. save() and load() throw
  /// MismatchError, on all ranks, for parts of a model that differ between them: a pipeline's stages, shards.
  Checkpoint& add(std::string name, torch::nn::Module& module);
  Checkpoint& add(std::string name, torch::optim::Optimizer& optimizer);
  Checkpoint& add(std::string name, GradientHook& hook);
  /// As add(), for models and optimizers that differ from rank to rank, as between two averages of a
  /// ModelAverager.
  Checkpoint& add_own(std::string name, torch::nn::Module& module);
  Checkpoint& add_own(std::string name, torch::optim::Optimizer& optimizer);
  /// As add(), for whatever has save() and load(): a DistributedSampler, a LossScaler, a ModelAverager.
  template <Archived T>
  Checkpoint& add(std::string name, T& thing) {
    return add(entry_of(std::move(name), false, thing));
  }
  /// As add_own(), for whatever has save() and load() and differs from rank to rank.
  template <Archived T>
  Checkpoint& add_own(std::string name, T& thing) {
    return add(entry_of(std::move(name), true, thing));
  }

  /// Collective: rank 0 writes the file. A file of that name is there, whole, at every moment: a new one
  /// takes the place of an old one when it is on the disk. If a rank cannot save, all ranks throw Error that
  /// names it and says why, and nothing of the new file is left.
  void save(const std::string& path, std::uint64_t step, Communicator& communicator) const;

  /// Collective: rank 0 reads the file, and all ranks load it. Returns the step that it was saved at. If the
  /// file cannot be read, is damaged, lacks one of the things, has one of another shape, or ranks' own states
  /// of another number of ranks, all ranks throw Error that says so; the things are of no use then. Without
  /// such states the number of ranks may be another; random numbers go on as they are then.
  std::uint64_t load(const std::string& path, Communicator& communicator);
  /// Collective: load() where rank 0 has such a file. Otherwise all ranks get 0 and nothing is loaded. The
  /// other ranks' hosts need no such file; whether they have one makes no difference.
  std::uint64_t resume(const std::string& path, Communicator& communicator);

 private:
  struct Entry {
    std::string name;
    bool is_of_rank = false;
    std::function<void(torch::serialize::OutputArchive&)> save;
    std::function<void(torch::serialize::InputArchive&)> load;
    torch::nn::Module* model = nullptr;  ///< null for other things
  };
  template <Archived T>
  static Entry entry_of(std::string name, bool is_of_rank, T& thing) {
    return {std::move(name), is_of_rank, [&thing](auto& archive) { thing.save(archive); },
            [&thing](auto& archive) { thing.load(archive); }, nullptr};
  }
  Checkpoint& add(Entry entry);
  std::vector<at::Tensor> parameters() const;
  void require_same_parts(Communicator& communicator) const;
  std::string saved(bool of_rank) const;
  void load(bool of_rank, const std::string& bytes);

  std::vector<Entry> entries_;
  std::map<std::string, std::vector<at::Tensor>> shared_;  ///< by name, what models and optimizers have
};

}  // namespace kolo
