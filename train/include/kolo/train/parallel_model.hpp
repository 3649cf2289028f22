// ParallelModel: what wrappers of a model share; which region of each parameter a rank holds, norms over all
// of them, what communication costs, and accumulation of gradients over batches.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/data.hpp"
#include "kolo/train/slice.hpp"

namespace kolo {

/// A parameter or a buffer of a model, and what this rank holds of it.
struct PlacedParameter {
  std::string name;  ///< in the whole model; a tied one has the first stage's
  /// This rank's elements, which the optimizer moves: [n] or [n, 1] with a range, else of the region's shape.
  at::Tensor tensor;
  std::vector<std::int64_t> whole;    ///< sizes of the whole parameter
  Region region = {};                 ///< this rank's part of it
  bool is_trained = true;             ///< an optimizer moves it; false: frozen, ignored, or a buffer
  bool has_sparse_gradients = false;  ///< its gradients are sparse tensors: a table of rows
  /// The dimensions as the elements of a range lie in memory, the outermost first. Empty: in their order, row
  /// by row.
  std::vector<std::int64_t> order = {};
};

/// A model's parameters, then its buffers, each once, in the order of named_parameters(). Local: asks no
/// other rank. Of a TensorParallelModule this rank's slices; of a model in a ShardedDataParallel this rank's
/// shards; all else is whole. What requires a gradient is trained.
std::vector<PlacedParameter> placed_parameters(const torch::nn::Module& module);

/// One copy of a model, which its holders have between them. Its ranks agree on where everything is, once:
/// norms, sums and checkpoints then need no rule of their own for replicas, shards, stages and slices. Copies
/// share everything. Not thread-safe.
class PlacedModel {
 public:
  /// A parameter or buffer of the whole model.
  struct Whole {
    std::string name;                 ///< as PlacedParameter::name
    at::ScalarType type;              ///< of the elements
    std::vector<std::int64_t> sizes;  ///< as PlacedParameter::whole
    std::vector<std::int64_t> order;  ///< as PlacedParameter::order
    bool is_trained = true;           ///< as PlacedParameter::is_trained
    /// Those that are not empty, each once, in the order of their elements. The first of its ranks counts it.
    std::vector<HeldRegion> pieces;
  };

  /// Collective over `holders`, the ranks with one copy of the model; not valid: this rank alone. Throws, on
  /// all of them, InvalidArgumentError where the regions of a parameter leave a hole or overlap without being
  /// the same, or a tensor is not of its region's size; MismatchError where ranks differ in a parameter's
  /// type, sizes or order.
  explicit PlacedModel(std::vector<PlacedParameter> parameters, Communicator holders = {});

  /// What this rank holds.
  const std::vector<PlacedParameter>& parameters() const noexcept { return state_->parameters; }
  /// All of the model, in the same order on all holders.
  const std::vector<Whole>& whole() const noexcept { return state_->whole; }
  /// The place in whole() of this rank's parameters()[index].
  std::size_t place(std::size_t index) const { return state_->places.at(index); }
  /// Whether this rank counts its region of parameters()[index]: it is the first of the holders that have it.
  bool counts(std::size_t index) const { return state_->counts.at(index); }
  /// Not valid: this rank alone.
  Communicator& holders() const noexcept { return state_->holders; }

 private:
  struct State {
    std::vector<PlacedParameter> parameters;
    Communicator holders;
    std::vector<Whole> whole;
    std::vector<std::size_t> places;
    std::vector<bool> counts;
  };
  std::shared_ptr<State> state_;
};

/// Collective over the holders: the norm of the gradients of all trained parameters, the root of the sum of
/// all squared elements, with the same bits on all holders. A region that several ranks hold counts once, a
/// parameter without a gradient not at all. Throws InvalidArgumentError for gradients of complex numbers,
/// and where overlap_forward makes the steps.
double gradient_norm(const PlacedModel& model);

/// Collective over the holders: scales this rank's gradients so that gradient_norm() is at most `max_norm`,
/// and returns the norm that they had. An infinite or NaN norm leaves all gradients as they are. Call it when
/// gradients are averaged over the replicas. Throws as gradient_norm() does, and unless `max_norm` is
/// positive and finite.
double clip_gradients(const PlacedModel& model, double max_norm);

/// Collective over the holders: whether the gradients of all trained parameters are free of infinities and
/// NaN.
bool gradients_are_finite(const PlacedModel& model);

/// Replaces each number by its sum over the ranks that hold parts of one model. Optimizers that take norms of
/// layers (LARS, LAMB) call it once a step, in step()'s thread, with all their parameters, in the order of
/// the groups, and this rank's sums of squares, two for each. sum_over_ranks() of a PlacedModel makes one.
/// Where a rank has whole layers, as under DistributedDataParallel, leave it empty; shards and slices of
/// layers are then refused. What it throws leaves step(), and no parameter has moved.
using SumOverRanks =
    std::function<void(const std::vector<at::Tensor>& parameters, std::vector<double>& squares)>;

/// For optimizers that take norms of layers (LARS, LAMB): sums over the holders of each parameter, what
/// several of them have alike counts once. Collective over all holders, in each step; their optimizers may
/// have other groups.
SumOverRanks sum_over_ranks(const PlacedModel& model);

/// Collective over the holders: copies of all parameters and buffers of the whole model, by name, the same on
/// all of them: what one process with the same model would hold. Each rank must have memory for it.
std::map<std::string, at::Tensor> gather_whole_parameters(const PlacedModel& model);

/// Gives each tensor its region of such values, whatever the ranks that they were gathered from. Local.
/// Throws InvalidArgumentError that names a parameter that is missing or has another shape; then none has
/// changed.
void load_whole_parameters(const std::vector<PlacedParameter>& parameters,
                           const std::map<std::string, at::Tensor>& whole);

/// What communication cost in one step (a backward that averages gradients, or an average of the models) or,
/// added up, in many. Times are of this rank.
struct CommunicationStatistics {
  std::uint64_t steps = 0;        ///< backward passes that averaged, or averages of the models
  std::uint64_t all_reduces = 0;  ///< buckets that were averaged; with overlap_forward slices
  std::uint64_t sparse_sums = 0;  ///< tables whose rows were summed
  std::uint64_t bytes = 0;  ///< handed in: gradients (rows with indices) or models; Counters has those sent
  std::chrono::nanoseconds hidden{0};  ///< time in which a bucket or table was under way under backward
  /// Time in which backward was over and waited for buckets, tables and buffers. With overlap_forward the
  /// next forward waits.
  std::chrono::nanoseconds exposed{0};

  /// Adds each number of `other`.
  CommunicationStatistics& operator+=(const CommunicationStatistics& other) noexcept {
    steps += other.steps;
    all_reduces += other.all_reduces;
    sparse_sums += other.sparse_sums;
    bytes += other.bytes;
    hidden += other.hidden;
    exposed += other.exposed;
    return *this;
  }
};

/// A model whose gradients ranks average or divide: the base of DistributedDataParallel, ShardedDataParallel
/// and PipelineParallel.
class ParallelModel {
 public:
  /// While one lives, backward() only accumulates gradients on this rank; the next backward() after it
  /// averages the sums. All ranks must do it alike. May be nested.
  ///
  ///     {
  ///       const auto local = model.no_sync();
  ///       loss(model(first), labels).backward();        // no communication
  ///     }
  ///     loss(model(second), labels).backward();         // averages the sum of both
  ///
  /// A model in shards gathers its parameters all the same, and holds its gradients whole meanwhile: 4 bytes
  /// a parameter more.
  class NoSync {
   public:
    /// See no_sync().
    explicit NoSync(ParallelModel& model);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    ParallelModel& model_;
  };

  virtual ~ParallelModel() = default;
  ParallelModel(const ParallelModel&) = delete;
  ParallelModel& operator=(const ParallelModel&) = delete;

  /// Gradients stay local while what it returns lives. Throws InvalidArgumentError as set_local() does.
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }
  /// Whether each backward() from now on only accumulates: no_sync() calls it. A pipeline throws
  /// InvalidArgumentError for true, as its step() has all micro-batches.
  virtual void set_local(bool is_local) = 0;
  /// The next losses are scaled by so much (loss scaling for mixed precision), the same on all ranks: a hook
  /// keeps what it keeps unscaled. Throws InvalidArgumentError for a scale that is not positive and finite,
  /// and with overlap_forward, whose steps cannot be left out.
  virtual void set_loss_scale(float scale) = 0;
  /// Collective over the holders, where they are several: whether the gradients of the last step are free of
  /// infinities and NaN, the same on all of them.
  virtual bool averages_are_finite() const { return gradients_are_finite(placed()); }
  /// Where the model's parameters and buffers are: for norms, sums over layers, checkpoints.
  virtual const PlacedModel& placed() const = 0;
  /// False with a hook that gives ranks different averages (post_local_sgd), so that their parameters differ.
  virtual bool keeps_ranks_equal() const noexcept { return true; }
  /// The communicator that it was made with, for calls of the caller's own.
  Communicator& communicator() noexcept { return communicator_; }
  /// What all steps cost together.
  virtual const CommunicationStatistics& total() const noexcept = 0;

 protected:
  /// Throws InvalidArgumentError for one that is not valid.
  explicit ParallelModel(Communicator communicator);
  /// Throws InvalidArgumentError unless it is positive and finite.
  static void require_scale(float scale);

 private:
  Communicator communicator_;
  int no_sync_depth_ = 0;
};

/// Forward and backward of a batch that does not fit memory, in `parts` of equal size:
///
///     optimizer.zero_grad();
///     const at::Tensor loss = kolo::accumulate(model, {images, labels}, 4, [&](const kolo::Batch& part) {
///       return cross_entropy(model(part[0]), part[1]);
///     });
///     optimizer.step();
///
/// `loss_of` returns the mean over the part's samples. All parts but the last are computed under no_sync(),
/// so the ranks average once. Gradients and the returned loss, which is without a graph, are those of the
/// whole batch, to rounding; but batch normalization sees one part at a time. All ranks must call it alike.
///
/// Throws InvalidArgumentError, before anything is computed, for fewer parts than 1, a batch without tensors,
/// tensors that differ in their number of samples, and a batch that cannot be divided into so many equal
/// parts; later for a loss that is no scalar; and what backward() throws.
at::Tensor accumulate(ParallelModel& model, const Batch& batch, std::int64_t parts,
                      const std::function<at::Tensor(const Batch& part)>& loss_of);

/// How many samples a rank computes at once where `batch` samples make a step of all ranks. Throws
/// InvalidArgumentError, which names the numbers, unless ranks times parts divides it.
std::int64_t samples_per_part(std::int64_t batch, int ranks, std::int64_t parts);

}  // namespace kolo
