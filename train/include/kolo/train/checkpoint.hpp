// Checkpoint: what training needs to go on after all ranks have ended, in a folder of safetensors.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/parallel_model.hpp"

namespace kolo {

namespace train {

class ElasticRun;
class StateReader;

/// What has save() and load() for libtorch's archives.
template <typename T>
concept SavesAndLoads = requires(T& thing, torch::serialize::OutputArchive& out,
                                 torch::serialize::InputArchive& in) {
  thing.save(out);
  thing.load(in);
};

/// What a step changes before it is over, and run_elastic() sets back where a step breaks off.
template <typename T>
concept Seekable = requires(T& thing) {
  thing.seek(thing.position());
};

/// What knows which regions of a model this rank has.
template <typename T>
concept Wrapper = requires(const T& wrapper) {
  { wrapper.placed() } -> std::same_as<const PlacedModel&>;
};

}  // namespace train

/// What has a state that an archive of libtorch can hold, beside models and optimizers: a sampler, an object
/// of the program's own.
template <typename T>
concept Archived = train::SavesAndLoads<T> && !std::derived_from<T, torch::nn::Module> &&
                   !std::derived_from<T, torch::optim::Optimizer>;

/// Settings of a Checkpoint. The same on all ranks.
struct CheckpointOptions {
  std::uint64_t keep =
      2;  ///< how many checkpoints save() leaves in a folder, the new one included; 1 or more
};

/// The things whose states a checkpoint holds, each under a name. It is a folder: of each rank
/// rank-R.safetensors, and index.json, which says what is where. Each part of a model and of an optimizer's
/// state is written by one of the ranks that have it, so that all write about as much, and nothing is
/// gathered.
///
/// | added as                     | tensors                                                                |
/// | ---------------------------- | ---------------------------------------------------------------------- |
/// | "model", a model             | "first.weight": parameters and buffers, as in named_parameters()       |
/// | "net", a model               | "net/first.weight"                                                     |
/// | "optimizer", an optimizer    | "optimizer/first.weight/exp_avg", "optimizer/options/0"                |
/// | "hook", a GradientHook       | "rank-0/hook/NAME", of each rank                                       |
/// | "sampler", an object         | "sampler/archive": bytes of rank 0; by add_own() "rank-0/sampler/archive"
/// |
///
/// libtorch's random numbers are each rank's own too. Not thread-safe; the things must outlive it.
///
///     kolo::Checkpoint checkpoint;
///     checkpoint.add("model", *net).add("optimizer", optimizer).add("sampler", sampler);
///     std::uint64_t step = checkpoint.resume("run", communicator);
class Checkpoint {
 public:
  /// Throws InvalidArgumentError where `keep` is 0.
  explicit Checkpoint(CheckpointOptions options = {});
  /// Waits until what save() has begun is written or has failed, and warns if wait() has not told of that.
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  /// Puts a thing's state into checkpoints from now on, under this name. All ranks add the same things.
  /// Throws InvalidArgumentError where the name is taken; "random numbers" always is. Of a divided module
  /// (ColumnParallelLinear) and of a model in a ShardedDataParallel each rank saves its slice or shard.
  /// save() and load() throw MismatchError, on all ranks, for other parts of a model: a pipeline's stages.
  Checkpoint& add(std::string name, torch::nn::Module& module) { return add(std::move(name), false, module); }
  /// The same for the regions that this rank has of a model.
  Checkpoint& add(std::string name, const PlacedModel& model);
  /// The same for the model of a DistributedDataParallel, ShardedDataParallel or PipelineParallel.
  template <train::Wrapper T>
  Checkpoint& add(std::string name, T& wrapper) {
    if constexpr (requires { wrapper.model(); }) {
      return add(std::move(name), wrapper.model());
    } else {
      return add(std::move(name), wrapper.placed());
    }
  }
  /// The same for an optimizer of parameters of these models. SGD, Adam, AdamW, RMSprop, Adagrad, LARS, LAMB
  /// and SparseAdam are saved tensor by tensor; another one as rank 0's archive, which cannot be of parts.
  Checkpoint& add(std::string name, torch::optim::Optimizer& optimizer) {
    return add(std::move(name), false, optimizer);
  }
  Checkpoint& add(std::string name, GradientHook& hook);
  /// The same for whatever has save() and load(): a DistributedSampler, a LossScaler, a ModelAverager.
  template <Archived T>
  Checkpoint& add(std::string name, T& thing) {
    return add(std::move(name), false, thing);
  }
  /// As add(), for things that differ from rank to rank, as models do between two averages of a
  /// ModelAverager.
  template <typename T>
  Checkpoint& add_own(std::string name, T& thing) {
    return add(std::move(name), true, thing);
  }

  /// Collective: copies this rank's share, and returns; a thread writes FOLDER/step-N meanwhile, which has
  /// that name when it is whole and on the disk. Older ones are removed then: see CheckpointOptions. All
  /// ranks write into one folder, and no other Checkpoint does. The memory of the copy is kept. Throws what
  /// wait() throws, of the save before; Error that names the rank, on all ranks, if one cannot save.
  void save(const std::string& folder, std::uint64_t step, Communicator& communicator);
  /// Until all ranks have written what save() has begun. Throws, on all ranks, Error that names the rank that
  /// could not and says why; nothing of that checkpoint is left then, and older ones are there.
  void wait();

  /// Collective: loads FOLDER/step-N, the newest one of FOLDER that is whole, or the file that kolo wrote
  /// before 0.2, in which flipped bits go unseen. Returns the step that it was saved at. Another number of
  /// ranks, and of shards or slices, may have saved it, but for what add_own() took. All ranks read it;
  /// they check it first, each rank some files. A damaged one is left out with a warning, if FOLDER has
  /// several. Throws Error that names the rank, on all ranks, where none is whole, lacks one of the things,
  /// or has one of another shape, in which case nothing is changed.
  std::uint64_t load(const std::string& folder, Communicator& communicator);
  /// Collective: load() where rank 0 finds one. Otherwise all ranks get 0 and nothing is loaded.
  std::uint64_t resume(const std::string& folder, Communicator& communicator);

 private:
  using Save = std::function<void(torch::serialize::OutputArchive&)>;
  using Load = std::function<void(torch::serialize::InputArchive&)>;
  using Mark = std::function<std::function<void()>()>;  ///< returns what goes back
  Checkpoint& add(std::string name, bool is_own, torch::nn::Module& module);
  Checkpoint& add(std::string name, bool is_own, torch::optim::Optimizer& optimizer);
  Checkpoint& add(std::string name, bool is_own, Save save, Load load, Mark mark);
  template <Archived T>
  Checkpoint& add(std::string name, bool is_own, T& thing) {
    Mark mark;
    if constexpr (train::Seekable<T>)
      mark = [&thing] { return [&thing, at = thing.position()] { thing.seek(at); }; };
    return add(
        std::move(name), is_own, [&thing](auto& archive) { thing.save(archive); },
        [&thing](auto& archive) { thing.load(archive); }, std::move(mark));
  }

  friend class train::ElasticRun;
  /// All that this rank has, as if it were one rank of one; random numbers are not among it. load() is the
  /// inverse, and gives optimizers the very tensors where it can.
  std::vector<PlacedParameter> collect();
  /// Of this the parameters and buffers of models that are not added as this rank's own.
  std::vector<PlacedParameter> placed() const;
  void load(train::StateReader& there);
  /// set_back() undoes what a step that has broken off since mark() has done to buffers and positions.
  void mark();
  void set_back();

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kolo
