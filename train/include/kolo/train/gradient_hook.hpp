// GradientHook: another way than one all_reduce to average the gradients of a bucket. Needs no libtorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo {

/// Where the gradient of one parameter lies in a bucket.
struct GradientPart {
  std::string name = {};                 ///< the parameter's, the same on all ranks and in all steps
  std::vector<std::int64_t> shape = {};  ///< sizes, in memory's order of dimensions; empty: one number
  std::uint64_t offset = 0;              ///< of its first element in the bucket, in elements
  std::uint64_t count = 0;               ///< number of elements: the product of `shape`
};

/// Gradients that are averaged together. Ranks have equal parts in equal order, so what one rank knows of the
/// layout all ranks know. Which parameters share a bucket may change between two steps: state that outlives
/// a step belongs to a parameter's name, not to a bucket's number.
struct GradientBucket {
  std::span<float> gradients = {};           ///< this rank's, before; the average over all ranks, after
  std::span<const GradientPart> parts = {};  ///< in the order in which they lie, without gaps
  std::size_t index = 0;  ///< of this bucket among those of the step; they come in this order
  /// The gradients are those of the loss times this factor, the same on all ranks. What a hook keeps from
  /// step to step it keeps divided by it.
  float loss_scale = 1;
  /// False on a rank that has no more data: its gradients are zero, it takes part in every call, and what it
  /// has kept of its own earlier gradients stays as it is. What it keeps of averages does not: a hook in
  /// which a rank averages for all ranks goes on to correct them.
  bool contributes = true;
};

/// What the optimizer does with gradients, as far as a hook has to know.
struct OptimizerTraits {
  std::string name = {};      ///< "SGD", "Adam", ...; "unknown" if kolo does not know its type
  bool has_momentum = false;  ///< whether it adds earlier gradients to a step; in Adam and its kin beta1 > 0
  bool has_weight_decay = false;  ///< whether it adds a part of the parameters to their gradients
};

/// What a hook keeps from step to step, for checkpoints: the values by a name that contains the parameter's.
/// It belongs to one rank.
using HookState = std::map<std::string, std::vector<float>>;

/// Averages gradients for DistributedDataParallel, which calls it from a thread of its own, a bucket after
/// the other, on a communicator of its own, while backward() goes on. One hook serves one model. Its
/// functions are never called by two threads at once.
///
/// Every hook that keeps_ranks_equal() keeps these promises; one test suite holds them to it:
/// - after average() all ranks hold the same bits;
/// - where the gradients of any rank are not finite (or overflow on the way), the average of that bucket is
///   not finite on any rank;
/// - a step that ends by end_step(false) has changed nothing that the next step depends on.
class GradientHook {
 public:
  virtual ~GradientHook();

  /// Name and settings in one line. All ranks must give the same.
  virtual std::string describe() const = 0;
  /// False where ranks get different averages: then check_parameters_every and join() are refused.
  virtual bool keeps_ranks_equal() const { return true; }
  /// False where what average() gives is no mean over the ranks, so that gradients that are zero leave it as
  /// it is: join() then changes no factor of gradients, whatever its mode.
  virtual bool is_mean() const { return true; }
  /// Throws InvalidArgumentError where the settings do not suit a model with these parameters, of which each
  /// is alone (`offset` is 0), or a state that was set does not.
  virtual void check(std::span<const GradientPart> parameters) const { static_cast<void>(parameters); }
  /// Throws InvalidArgumentError where the hook and the optimizer do not go together.
  virtual void check(const OptimizerTraits& optimizer) const { static_cast<void>(optimizer); }

  /// Collective: puts the average over all ranks in place of the gradients. May make any number of calls on
  /// `communicator`, waits for them, and throws their errors.
  virtual void average(const GradientBucket& bucket, Communicator& communicator) = 0;
  /// After the last bucket of a step. `keep`: the averages are finite, and the step counts; otherwise it is
  /// as if it had never been. The same on all ranks.
  virtual void end_step(bool keep) = 0;

  /// What the next steps need of earlier ones, on this rank; empty if there is nothing.
  virtual HookState state() const { return {}; }
  /// The inverse of state(). Throws InvalidArgumentError for one of another hook; by itself a hook has none,
  /// and refuses all that is not empty. For parameters of other sizes, check() or average() throws it.
  virtual void set_state(const HookState& state);
};

}  // namespace kolo
