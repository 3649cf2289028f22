// DistributedDataParallel: trains one model on all ranks, each with its own share of the data.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/parallel_model.hpp"

namespace torch::optim {
class Optimizer;
}

namespace kolo {

/// Where buckets of gradients end; see DistributedDataParallelOptions::bucket_borders.
enum class BucketBorders {
  sizes,     ///< where a bucket holds first_bucket_bytes or bucket_bytes
  measured,  ///< where the last one is averaged earliest, as far as measured times of the first steps tell
};

/// The same on all ranks. Zero as long as nothing is measured.
struct BucketPlan {
  std::chrono::duration<double> latency{0};       ///< of averaging a bucket, however small
  std::chrono::duration<double> per_mebibyte{0};  ///< what it takes longer for each 2^20 bytes
  std::chrono::duration<double> exposed{0};  ///< what a step is expected to wait for after the last gradient
  std::chrono::duration<double> exposed_before{0};  ///< measured with borders by sizes
  bool is_final = false;                            ///< no border changes any more
};

/// How the rows of sparse gradients reach all ranks.
enum class SparseMethod {
  all_reduce,  ///< SparseAllReduce: each rank adds up the rows that it is responsible for; the more rows
               ///< ranks have in common, the fewer bytes
  all_gather,  ///< each rank gets all ranks' rows and adds them up: fewer messages, N - 1 times the bytes
};

/// What the sum of gradients is divided by while some ranks have no more data; see join().
enum class JoinMode {
  divide_by_all,     ///< all ranks: each batch counts alike, late steps are smaller
  divide_by_active,  ///< the ranks that still have data
  weigh_by_samples,  ///< each rank's gradient, the mean over its samples, counts by their number
};

/// Makes an optimizer of these parameters and no others.
using OptimizerFactory =
    std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>& parameters)>;

/// Settings of DistributedDataParallel. The same on all ranks, but for `timeline`; else construction throws
/// MismatchError.
struct DistributedDataParallelOptions {
  /// A bucket is closed when it holds so many bytes of gradients or more. The first is small, so that
  /// communication starts early in backward.
  std::uint64_t first_bucket_bytes = 1u << 20;
  std::uint64_t bucket_bytes = 25u << 20;
  /// Fill the buckets anew, after the first backward, in the order in which it produced the gradients (rank
  /// 0's). Does nothing with find_unused_parameters, as the order may then differ from step to step.
  bool rebuild_buckets = true;
  /// With `measured`, the first 20 steps tell when each gradient is ready and what averaging a bucket takes;
  /// then borders move to where the last bucket is averaged earliest (docs/training/overlap.md). Does nothing
  /// without rebuild_buckets and with find_unused_parameters. On the way up to three of these steps move all
  /// gradients.
  BucketBorders bucket_borders = BucketBorders::sizes;
  /// Copy rank 0's buffers (of batch normalization, say) to all ranks at the end of each backward() that
  /// averages.
  bool broadcast_buffers = true;
  /// Parameters may go without a gradient, on some ranks or on all; every rank's backward must reach at least
  /// one. Costs a walk over the autograd graph and one small all-reduce per step. Without it a parameter that
  /// gets no gradient is an error.
  bool find_unused_parameters = false;
  /// A promise that each backward() uses the same parameters, each as often; what a rank uses may differ from
  /// other ranks. Parameters may then go without a gradient, and parts that backward() computes anew
  /// (checkpointing) may share parameters, for what the first backward() costs: it finds both and averages
  /// when it is over. A later one that differs is an error, on other ranks in this backward or the next, with
  /// names of the rank and the parameter. Excludes find_unused_parameters and overlap_forward.
  bool static_graph = false;
  /// Ranks keep the same parameters only if their optimizers round alike. Construction compares the ranks'
  /// instruction sets (as libtorch uses them), versions and builds of libtorch, and numbers of threads. If
  /// they differ, rank 0 warns; with this option all ranks throw MismatchError.
  bool require_equal_machines = false;
  /// Compare the ranks' parameters at the end of the first backward() that averages, and of every so many
  /// after it; 0: never. Where they differ, backward() throws MismatchError, on all ranks, that names the
  /// rank and the first such parameter. Costs reading all parameters, and a message of a few bytes.
  std::uint64_t check_parameters_every = 0;
  /// How gradients of type float32 travel: see CallOptions::wire.
  std::optional<Wire> wire = {};
  /// Parameters and buffers, by name, that belong to each rank alone: neither rank 0's values nor averages of
  /// gradients reach them, and the ranks' shapes may differ.
  std::vector<std::string> ignored = {};
  /// Parameters with sparse gradients, by name, besides the tables of torch::nn::Embedding and EmbeddingBag
  /// that were made with sparse(true). Their gradients stay sparse: only rows that some rank has travel.
  std::vector<std::string> sparse_parameters = {};
  /// How the rows of sparse gradients are summed.
  SparseMethod sparse_method = SparseMethod::all_reduce;
  /// Averages the buckets of float32 in place of all_reduce (compression.hpp has some); other buckets travel
  /// as they are. Its work is done by a thread of its own under backward(). May be null; excludes `wire` and
  /// find_unused_parameters; with static_graph it gets zeros for what this rank does not use.
  std::shared_ptr<GradientHook> hook = {};
  /// backward() returns while gradients are still averaged, and the next forward waits for each bucket, and
  /// makes the step of the optimizer of its parameters, before the first operation that uses one of them:
  ///
  ///     options.overlap_forward = [](const auto& parameters) {
  ///       return std::make_unique<torch::optim::SGD>(parameters, 0.1);
  ///     };
  ///     kolo::DistributedDataParallel model(Net(), communicator, options);
  ///     for (const auto& [images, labels] : batches) loss(model(images), labels).backward();
  ///
  /// So there is no step() to call, and no zero_grad(): after backward() parameters have no gradients. The
  /// factory is called by construction, once for each bucket (of 4 MiB, or bucket_bytes where that is less).
  /// Any operation of libtorch waits, in whatever function and thread. Memory that is read through a pointer
  /// (data_ptr(), torch::save()) is still that from before the step: call finish_step() before.
  /// rebuild_buckets does nothing; excludes `hook`, find_unused_parameters, static_graph, and tables with
  /// sparse gradients.
  OptimizerFactory overlap_forward = {};
  /// Where "wait" and "bucket" spans are recorded; null: on Communicator::timeline(), if there is one.
  std::shared_ptr<Timeline> timeline = {};
  /// The ranks that have one copy of the model between them, where a rank has slices of layers:
  /// Grid::replica(). Their construction of the wrapper is collective, too. Not set: this rank alone.
  Communicator holders = {};
};

/// What DistributedDataParallel<Model> does whatever the model's type.
class DistributedDataParallelBase : public ParallelModel {
 public:
  /// Lets ranks train on different amounts of data:
  ///
  ///     auto join = model.join(kolo::JoinMode::weigh_by_samples);   // all ranks
  ///     for (const auto& [images, labels] : batches) {
  ///       join.step(images.size(0));
  ///       optimizer.zero_grad();
  ///       loss(model(images), labels).backward();
  ///       optimizer.step();
  ///     }
  ///     join.finish([&] { optimizer.step(); });
  ///
  /// A rank that has no more data takes part in the other ranks' averages with zeros until all are done, and
  /// gives the averages to its optimizer as they do, so that parameters and optimizers stay equal on all
  /// ranks. What hooks keep of its own gradients stays as it is; buffers come from the first rank that has
  /// data.
  class Join {
   public:
    /// Collective. Throws MismatchError, on all ranks, where modes differ; InvalidArgumentError where one
    /// lives.
    Join(DistributedDataParallelBase& parallel, JoinMode mode);
    /// Tells the other ranks where finish() has not been called: they get an AbortedError.
    ~Join();
    Join(const Join&) = delete;
    Join& operator=(const Join&) = delete;

    /// Before the forward() of each backward() that averages: this rank has so many samples in it (under
    /// no_sync(), those of all its passes). Starts a small call that backward() waits for. Throws
    /// InvalidArgumentError for a negative number, or where the step before has not ended.
    void step(std::int64_t samples);
    /// This rank has no more data: takes part in what is left. `optimizer_step` is called after each
    /// averaging, in which every parameter that the others have a gradient of has got it here. `empty_pass`,
    /// where the model itself communicates in forward or backward (SyncBatchNorm), has to make forward and
    /// backward with a batch of no samples, and is called before. Returns when no rank has data. Throws
    /// InvalidArgumentError without an `optimizer_step`, or with one where overlap_forward makes the steps,
    /// and what backward() throws.
    void finish(const std::function<void()>& optimizer_step, const std::function<void()>& empty_pass = {});

   private:
    DistributedDataParallelBase& parallel_;
    bool is_finished_ = false;
  };

  /// Parameters whose gradients are averaged together.
  struct BucketInfo {
    std::vector<std::string> parameters;  ///< names, in the order in which their gradients lie in the bucket
    Buffer gradients;  ///< the memory of their gradients; valid until the next forward or backward
  };

  /// Collective. Takes a communicator of its own by Communicator::split(), so calls on `communicator` may
  /// come at any time, in backward() too. Throws, on all ranks, MismatchError that names the rank and the
  /// parameter when the models, what is frozen in them, or the options are not alike, and
  /// InvalidArgumentError that names the rank when there is nothing to train, a parameter or buffer is not
  /// dense, they are not all on the CPU or on one CUDA device, the hook does not suit the model, `ignored` or
  /// sparse_parameters names none, a table with sparse gradients is another layer's parameter too,
  /// overlap_forward gives no optimizer, or two options exclude each other. Another DistributedDataParallel
  /// of one of the parameters, of an older communicator for example, is of no use from then on.
  DistributedDataParallelBase(std::shared_ptr<torch::nn::Module> module, Communicator communicator,
                              DistributedDataParallelOptions options);
  /// Waits for all-reduces under way, and makes their steps as finish_step() does.
  ~DistributedDataParallelBase() override;

  /// Collective: ranks may have different amounts of data while what it returns lives. Throws as Join does.
  [[nodiscard]] Join join(JoinMode mode) { return Join(*this, mode); }

  /// For a caller that calls the model itself: before its forward(). Throws InvalidArgumentError where a
  /// parameter or buffer was cast, a parameter thawed or added; in eval(), backward from the outputs given
  /// below does.
  void prepare_forward();
  /// For a caller that calls the model itself: after its forward(). Finds the parameters that backward from
  /// `outputs` does not reach. Only training in eval() needs that, and find_unused_parameters to start early.
  /// If the loss may depend on more than `outputs`, pass `is_all` = false, or no outputs.
  /// If backward() comes after several forwards, it is enough that one of them reaches a parameter.
  void prepare_backward(std::span<const at::Tensor> outputs, bool is_all = true);

  /// With overlap_forward: waits for the averages under way and makes the steps that wait for them. Does
  /// nothing where there are none. Throws the averages' error.
  void finish_step();
  /// Calls `change` with the optimizer of each bucket: at once, or as soon as it has made the step that is
  /// under way. So it may set learning rates at any place of the loop, and they count from the next
  /// backward() on. All ranks must do it alike; `change` must not use the parameters. Does nothing without
  /// overlap_forward.
  void change_optimizers(const std::function<void(torch::optim::Optimizer&)>& change);
  /// The optimizers that overlap_forward has made, one for each bucket, to save them for example; empty
  /// without it. Calls finish_step().
  std::vector<torch::optim::Optimizer*> optimizers();

  /// Throws InvalidArgumentError where the hook and this optimizer do not go together, or where
  /// overlap_forward has optimizers of its own. Call it once.
  void check(const torch::optim::Optimizer& optimizer) const;
  void set_local(bool is_local) override;
  bool keeps_ranks_equal() const noexcept override;
  void set_loss_scale(float scale) override;
  /// Where they are not, the hook has forgotten the step: skip the optimizer's step as well. Without a hook
  /// it reads all buckets: ask before gradients are changed. Always true with overlap_forward.
  bool averages_are_finite() const override;

  /// The model's parameters, for an optimizer: each once, also one that is registered under several names
  /// (tied weights), where libtorch's parameters() lists it several times. Calls finish_step().
  std::vector<at::Tensor> parameters() const;
  /// All parameters and buffers, and where they are: for norms, sums over layers, checkpoints. Those whose
  /// gradients backward() averages are trained. Throws InvalidArgumentError where this rank has slices of
  /// layers alone, and `holders` is not set.
  const PlacedModel& placed() const override;
  /// The buckets as assigned at the moment, in the order in which they are averaged. Calls finish_step().
  std::vector<BucketInfo> buckets() const;
  /// What BucketBorders::measured has found up to now.
  BucketPlan bucket_plan() const;
  /// What the last step cost whose averages have all been waited for.
  const CommunicationStatistics& last_step() const noexcept;
  const CommunicationStatistics& total() const noexcept override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// As placed_parameters(module), but what DistributedDataParallel would average with these options is
/// trained, and tables have sparse gradients. Local. Throws InvalidArgumentError for a model that it would
/// refuse.
std::vector<PlacedParameter> placed_parameters(const torch::nn::Module& module,
                                               const DistributedDataParallelOptions& options);

namespace train {

/// Gathers the tensors in what a forward() returned: a tensor, or containers, pairs, tuples and optionals of
/// such. Returns false where there may be more, in a type that it cannot see into.
inline bool collect_tensors(const at::Tensor& value, std::vector<at::Tensor>& out) {
  out.push_back(value);
  return true;
}
template <typename T>
bool collect_tensors(const T& value, std::vector<at::Tensor>& out) {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_convertible_v<T, std::string_view>) {
    return true;
  } else if constexpr (requires { value.begin(), value.end(); }) {
    bool is_all = true;
    for (const auto& part : value) is_all = collect_tensors(part, out) && is_all;
    return is_all;
  } else if constexpr (requires { value.has_value(), *value; }) {
    return !value.has_value() || collect_tensors(*value, out);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    bool is_all = true;
    std::apply([&](const auto&... parts) { ((is_all = collect_tensors(parts, out) && is_all), ...); }, value);
    return is_all;
  } else {
    return false;
  }
}

}  // namespace train

/// Wraps a model so that backward() leaves in every parameter's gradient the average over all ranks:
///
///     kolo::DistributedDataParallel model(Net(), communicator);
///     loss(model(images), labels).backward();
///     optimizer.step();
///
/// At the start every rank gets rank 0's parameters and buffers. Gradients live in buckets, side by side in
/// memory that kolo gave out; a bucket's all-reduce starts inside backward() as soon as its last gradient is
/// ready, and backward() returns when the last one is over. As the same averages are applied everywhere, all
/// ranks keep the same parameters, bit for bit, provided that what the optimizer does depends on nothing but
/// the gradients.
///
/// Give the optimizer the model's own parameters. Every rank must make the same sequence of synchronized
/// backward calls. Gradients must be dense, but for those of tables (see sparse_parameters), whose averages
/// are coalesced sparse tensors, and without a graph of their own (create_graph). When a rank or
/// the network fails, backward() throws kolo's error; the object is of no use from then on and throws the
/// same error again. Not thread-safe; call backward() from one thread at a time.
template <std::derived_from<torch::nn::Module> Model>
class DistributedDataParallel : public DistributedDataParallelBase {
 public:
  /// Collective. Shares the model; throws as DistributedDataParallelBase does.
  DistributedDataParallel(std::shared_ptr<Model> model, Communicator communicator,
                          DistributedDataParallelOptions options = {})
      : DistributedDataParallelBase(model, std::move(communicator), std::move(options)),
        model_(std::move(model)) {}
  DistributedDataParallel(const torch::nn::ModuleHolder<Model>& model, Communicator communicator,
                          DistributedDataParallelOptions options = {})
      : DistributedDataParallel(model.ptr(), std::move(communicator), std::move(options)) {}

  /// Calls the model's forward() with these arguments, and returns what it returns. Throws
  /// InvalidArgumentError as prepare_forward() does, and the error of a step that has failed.
  template <typename... Arguments>
  auto forward(Arguments&&... arguments) {
    prepare_forward();
    auto outputs = model_->forward(std::forward<Arguments>(arguments)...);
    std::vector<at::Tensor> tensors;
    const bool is_all = train::collect_tensors(outputs, tensors);
    prepare_backward(tensors, is_all);
    return outputs;
  }
  /// As forward().
  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  /// The model itself, for evaluation, saving and so on. Both call finish_step().
  Model& model() {
    finish_step();
    return *model_;
  }
  Model* operator->() { return &model(); }

 private:
  std::shared_ptr<Model> model_;
};

}  // namespace kolo
