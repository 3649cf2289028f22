// run_elastic(): a training loop that goes on whichever rank dies, and into which newcomers come.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "kolo/communicator.hpp"
#include "kolo/train/checkpoint.hpp"

namespace kolo {

/// What run_elastic() tells when a group begins its steps.
struct ElasticChange {
  int rank = 0;                      ///< this one's, in the group
  int size = 0;                      ///< of the group
  int size_before = 0;               ///< of the last one; 0: this rank was in none
  std::string why = {};              ///< what ended the last one; empty: newcomers came
  std::uint64_t step = 0;            ///< the number of finished steps
  std::string origin = {};           ///< where the state comes from, in words
  std::chrono::nanoseconds lost{0};  ///< since this rank knew of the end of the last one
};

/// Settings of run_elastic(). The same on all ranks, but for the functions.
struct ElasticOptions {
  int least = 1;  ///< with fewer ranks, run_elastic() writes a checkpoint and throws QuorumError
  int most = 0;   ///< more newcomers wait on; 0: no limit
  /// Of checkpoints: training begins with the newest one. Empty: there are none.
  std::string folder = {};
  std::uint64_t save_every = 0;  ///< so many steps a checkpoint is written; 0: never
  /// Every so many steps each rank sends a copy of its part of the state to another rank, while the next
  /// steps run; a loss takes training back to the newest copy that is whole. Copies take the memory of four
  /// parts. Where each rank has all of the state there are none. 0: never.
  std::uint64_t copy_every = 0;
  /// So many steps rank 0 tells the others whether newcomers wait. They learn of it as many steps later, so
  /// that nobody waits for that call. 0: never.
  std::uint64_t look_every = 1;
  /// As RegroupOptions::serve.
  std::function<std::shared_ptr<Store>()> serve = {};
  /// Joins the job again as a newcomer, by Communicator::join(): for a rank that the others have taken for
  /// dead, as it was stopped for long. Empty: such a rank throws PeerLostError.
  std::function<Communicator()> join = {};
  /// Called on each rank when a group begins. Empty: rank 0 writes a line to standard error.
  std::function<void(const ElasticChange&)> on_change = {};
};

/// Makes for a group of ranks what depends on it, and adds all that training goes on from to `state`.
using ElasticSetup = std::function<void(Communicator& group, Checkpoint& state)>;
/// Makes the step after so many, or returns false where there is none.
using ElasticStep = std::function<bool(Communicator& group, std::uint64_t finished)>;

/// Collective: makes steps until none is left, and returns their number. Ranks may die at any time, and those
/// that join() the group come in between two steps; nothing is lost or counted twice. Start the program with
/// `kolo run --elastic 1:4`: under plain `kolo run` the launcher stops the survivors.
///
///     kolo::Communicator ranks = kolo::Communicator::create();
///     auto net = std::make_shared<Net>();
///     torch::optim::SGD optimizer(net->parameters(), 0.1);
///     std::optional<kolo::DistributedDataParallel<Net>> model;
///     std::optional<kolo::DistributedSampler> sampler;
///     const auto setup = [&](kolo::Communicator& group, kolo::Checkpoint& state) {
///       model.emplace(net, group);
///       sampler.emplace(size, group.rank(), group.size());
///       state.add("model", *model).add("optimizer", optimizer).add("sampler", *sampler);
///     };
///     kolo::run_elastic(ranks, {}, setup, [&](kolo::Communicator& group, std::uint64_t) {
///       const auto batch = sampler->next(600 / group.size());
///       if (!batch) return false;
///       optimizer.zero_grad();
///       loss(*model, *batch).backward();
///       optimizer.step();
///       return true;
///     });
///
/// A step counts on a rank when the function returns. Where one breaks off, since a rank was lost, all ranks
/// regroup() and go on after the last step that any of them has finished. Those behind and newcomers copy
/// `state` from the lowest rank that is furthest ahead, or change nothing if that one dies meanwhile. All
/// others keep what they have, also where `setup` makes models and optimizers anew.
///
/// So a step changes models and optimizers after its last call to other ranks, and nothing that is not in
/// `state`; overlap_forward, whose steps come later, does not go with it. Gradients need zero_grad(). What a
/// forward changes goes back to what it was after the last finished step: buffers of models that are added as
/// such, and what has position() and seek() (DistributedSampler). `state` has each rank's own things, too:
/// who copies gets those of the rank it copies from. So do hooks, as they count steps and may have factors
/// that are the same on all ranks; what they have left out stands in for what the lost rank's had. Random
/// numbers are never copied: survivors go on with theirs, and each newcomer's are seeded anew.
///
/// Where ranks have parts of the state, as with ShardedDataParallel, the next group divides it anew, from the
/// ranks' memory. What has died with a rank comes from its replica in a data group, else from the copy that
/// another rank has (ElasticOptions::copy_every): training goes on after the last step of which all parts are
/// left. A loss just when gradients are averaged may leave replicas a step ahead of one another; where no
/// step is whole, and where no rank has the state any more, the last checkpoint in ElasticOptions::folder is
/// loaded. ElasticChange::origin says which it was.
///
/// Newcomers come in when all ranks are between two steps, and the others wait as long as the copy takes:
/// there is nothing to copy ahead, as each step changes all of the state.
///
/// Throws QuorumError where fewer ranks than `least` are left, and on the ranks of the smaller part of a cut
/// network; it names the checkpoint that they have written, if there is a folder. Throws Error where the
/// state is lost. An exception of `setup` or `step` that does not come from the loss of a rank leaves this
/// function, and the other ranks go on without this one. `communicator` is the last group.
std::uint64_t run_elastic(Communicator& communicator, const ElasticOptions& options,
                          const ElasticSetup& setup, const ElasticStep& step);

/// A model in words, for Options::program, which a newcomer must have alike: how many parameters and buffers
/// it has, how many numbers, and a hash of names, types and shapes.
std::string describe_model(const torch::nn::Module& model);

}  // namespace kolo
