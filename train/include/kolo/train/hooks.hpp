// Gradient hooks: averages that cost fewer bytes, or of a kind of the caller's own. Needs no libtorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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
  /// Whether scatter() works: of hooks that encode each gradient for itself.
  virtual bool can_scatter() const { return false; }
  /// Collective: average() for ShardedDataParallel. Rank r gets the averages of the r-th of `counts` elements
  /// in a row, in their place; its others are of no use then. Where gradients of any rank are not finite, the
  /// averages in their place are not. Throws InvalidArgumentError unless can_scatter().
  virtual void scatter(const GradientBucket& bucket, std::span<const std::uint64_t> counts,
                       Communicator& communicator);
  /// After the last bucket of a step. `keep`: the averages are finite, and the step counts; otherwise it is
  /// as if it had never been. The same on all ranks.
  virtual void end_step(bool keep) = 0;

  /// What the next steps need of earlier ones, on this rank; empty if there is nothing.
  virtual HookState state() const { return {}; }
  /// The inverse of state(). Throws InvalidArgumentError for one of another hook; by itself a hook has none,
  /// and refuses all that is not empty. For parameters of other sizes, check() or average() throws it.
  virtual void set_state(const HookState& state);
};

/// How make_compressed_hook() sends a gradient. The part of float32's bytes comes first, without the cost of
/// a message itself.
enum class GradientFormat : std::uint8_t {
  float16,   ///< 1/2; infinite beyond 65504
  bfloat16,  ///< 1/2; float32's range with 8 significant bits
  int8,      ///< 0.254; 256 numbers share a scale
  float8,    ///< 0.254; E4M3 (a sign, 4 bits of exponent, 3 of mantissa); 256 numbers share a scale
  one_bit,   ///< 1/25.6; the sign; 64 numbers share a magnitude, the mean of theirs
};

/// Settings of make_compressed_hook(). The same on all ranks.
struct CompressedOptions {
  GradientFormat format = GradientFormat::int8;  ///< how a number travels, and what it loses
  /// Whether what rounding leaves out is added to the next gradients (error feedback), at the cost of a copy
  /// of the gradients. one_bit does not learn without.
  bool feedback = false;
  std::uint64_t start_after_steps = 0;  ///< number of first steps in which gradients travel as float32
};
/// Sends gradients, and their averages, rounded to one of the formats. Gradients are rounded on the way to
/// the rank that averages them, and averages on the way back: H. Tang et al., "1-bit Adam: Communication
/// Efficient Large-Scale Training with Adam's Convergence Speed", ICML 2021, section 4.2. Feedback: F. Seide
/// et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014.
///
///     options.hook = kolo::make_compressed_hook({.format = kolo::GradientFormat::int8, .feedback = true});
///     kolo::DistributedDataParallel model(Net(), communicator, options);
std::shared_ptr<GradientHook> make_compressed_hook(const CompressedOptions& options);

/// Settings of make_top_k_hook(). The same on all ranks.
struct TopKOptions {
  double ratio = 0.01;  ///< part of each parameter's elements that travels, at least one; above 0, at most 1.
                        ///< The paper ends at 0.001
  /// Of the gradients that a rank keeps, in place of the optimizer's momentum; from 0 to below 1. Above 0 it
  /// is refused with an optimizer that has a momentum of its own.
  double momentum = 0.9;
  /// Number of first steps in which the ratio falls from 1/4 to `ratio`, by an equal factor each.
  std::uint64_t warm_up_steps = 0;
};
/// Sends the elements that have gathered most, as (index, value) data. Y. Lin et al., "Deep Gradient
/// Compression", ICLR 2018. Throws InvalidArgumentError for options out of their range.
std::shared_ptr<GradientHook> make_top_k_hook(const TopKOptions& options);

/// Settings of make_power_sgd_hook(). The same on all ranks.
struct PowerSgdOptions {
  /// Columns of the two factors that stand for a matrix; 1 or more. Construction of the model throws
  /// InvalidArgumentError where it saves bytes for no parameter.
  int rank = 2;
  std::uint64_t start_after_steps = 0;  ///< number of first steps in which gradients travel as they are
  std::uint64_t seed = 1;               ///< draws the first factors, alike on all ranks
  bool feedback = true;                 ///< adds what a step leaves out to the next gradients
  bool warm_start = true;  ///< a step goes on from the factors of the last one; else from random ones
};
/// Sends matrices as products of thin ones. T. Vogels et al., "PowerSGD", NeurIPS 2019. Throws
/// InvalidArgumentError for options out of their range.
std::shared_ptr<GradientHook> make_power_sgd_hook(const PowerSgdOptions& options);

/// Adds what the ranks' gradients have apart and averages what they have in common, parameter by parameter.
/// So large batches keep the learning rate of small ones: S. Maleki et al., "Scaling Distributed
/// Training with Adaptive Summation", MLSys 2021. Ranks that agree count once; the result is not the average.
/// Sends a ring's bytes.
std::shared_ptr<GradientHook> make_adasum_hook();

/// Settings of make_post_local_sgd_hook(). The same on all ranks.
struct PostLocalSgdOptions {
  std::uint64_t start_after_steps = 0;  ///< number of first steps whose gradients are averaged over all ranks
  /// n: ranks 0 to n - 1 are a group, ranks n to 2n - 1 another one, and so on; those of a host, say. 1 or
  /// more.
  int ranks_per_group = 1;
};
/// Averages over all ranks at first, later within each group alone. So groups drift apart: T. Lin et
/// al., "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020. Put the models together every few steps
/// with average_parameters() (averages.hpp). With one rank in a group nothing is sent in between. Throws
/// InvalidArgumentError for groups of less than one rank.
std::shared_ptr<GradientHook> make_post_local_sgd_hook(const PostLocalSgdOptions& options);

/// Makes a hook by name and parameters, as algorithms are named: "int8", "float8:feedback=1",
/// "top_k:ratio=0.001: momentum=0.9:warm_up_steps=100", "power_sgd:rank=4". Throws InvalidArgumentError,
/// which lists the names or the parameters there are, for others, and for values out of their range.
std::shared_ptr<GradientHook> make_gradient_hook(std::string_view specification);
/// The names that make_gradient_hook() takes.
std::vector<std::string> gradient_hook_names();

}  // namespace kolo
