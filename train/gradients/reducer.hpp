// Reducer: watches gradients become ready during backward and averages them bucket by bucket.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gradients/averaging.hpp"
#include "gradients/join_agreement.hpp"
#include "gradients/static_graph.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "libtorch/gradient_listener.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

struct ReducerOptions {
  const char* owner = "DistributedDataParallel";              ///< in messages
  bool is_replaceable = true;                                 ///< another one may take its place
  bool find_unused_parameters = false, static_graph = false;  ///< as DistributedDataParallelOptions
  bool may_rebuild = false;                 ///< buckets follow what the first backward shows
  std::shared_ptr<GradientHook> hook = {};  ///< hears how steps end; may be null
  std::shared_ptr<Timeline> timeline = {};
};

/// The engine of DistributedDataParallel, which documents the behaviour. A hook on each parameter's gradient
/// accumulator reports in the thread that runs backward; the first report of a run of autograd's engine
/// queues end_run(), which autograd calls when that run is over. Checkpointing nests runs: what the inner
/// ones leave open ends with the outermost.
class Reducer final : public GradientListener {
 public:
  /// `parameters` are those that want gradients, the same on all ranks, each tensor once; each is one of
  /// `kinds`' own. Whichever reducer watched one of them before is retired: it throws from then on.
  Reducer(std::vector<NamedTensor> parameters, std::vector<std::unique_ptr<Averaging>> kinds,
          Communicator communicator, ReducerOptions options);
  ~Reducer();
  /// The one that watches the parameter; null for none, and for one that is not replaceable.
  static Reducer* of(const at::Tensor& parameter);
  /// The same of any.
  static Reducer* listening_to(const at::Tensor& parameter);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// True: backward only accumulates.
  void set_local(bool is_local) noexcept { is_local_ = is_local; }
  /// True: a step may consist of several runs of autograd, and none of them waits: finish_deferred() does.
  void set_deferred(bool is_deferred) noexcept { is_deferred_ = is_deferred; }
  /// Collective: waits for the averages of the runs before. What has no gradient counts as
  /// find_unused_parameters has it.
  void finish_deferred();
  /// Throws the error of an earlier backward, which may have broken off, since the ranks no longer agree.
  void require_sound();
  /// The same, of that error alone.
  void require_no_error() const;
  /// Of averages that outlast backward: waits for all of them and makes their steps. Throws what
  /// require_sound() does, and the error of an average.
  void finish_step();
  /// Goes on with parameters that were loaded. Throws InvalidArgumentError where one was replaced by another
  /// kind under the same name (by a cast, say).
  void require_watched();
  /// To find unused parameters: remembers which of them backward from `outputs` does not reach; none if these
  /// are not all that the loss may depend on.
  void expect_backward_from(std::span<const at::Tensor> outputs, bool is_all);
  /// A forward begins that wants gradients. If the one before has had a backward() that reached none of the
  /// parameters, this rank is a step behind its peers: its next averages say so.
  void begin_pass();

  void make_whole() override;
  void leave_whole() noexcept override;

  /// Who has data in each step; null: all ranks.
  void set_join(JoinAgreement* join) noexcept { join_ = join; }
  /// A step of a rank without data, which was announced. `empty_pass` may be empty; then all gradients are
  /// zero. Returns false, without a step, where no rank has data.
  bool follow(const std::function<void()>& empty_pass);
  /// From now on this object is of no use, and the other ranks learn why, unless they know of an error
  /// already.
  void leave(const std::string& reason) noexcept;

  /// Whether the averages of the last step are. Without a hook by a look at all of them.
  bool averages_are_finite() const;

  /// What each averaging does besides: copies rank 0's buffers, checks the parameters. Both may be null.
  void set_companions(Replicator* buffers, std::function<void(Communicator&)> check) {
    buffers_ = buffers;
    check_ = std::move(check);
  }

  /// How gradients are laid out, on which the last bits of a sum may depend.
  struct Layout {
    bool is_rebuilt;                 ///< after a backward
    std::vector<std::size_t> order;  ///< of all parameters
    std::vector<std::size_t> ends;   ///< of buckets, among the dense ones; empty unless they were measured
  };
  Layout layout() const;
  /// Between two steps, the same on all ranks. Does nothing where it is of another model, or options let
  /// nothing be laid out anew.
  void restore(const Layout& layout);
  const CommunicationStatistics& last_step();
  const CommunicationStatistics& total();

 private:
  struct Parameter {
    at::Tensor tensor;
    at::Device device = tensor.device();
    NodePtr accumulator = {};  ///< autograd holds it weakly; without it no hook fires
    std::uintptr_t hook = 0;
    Averaging* kind = nullptr;
    std::size_t bucket = 0, slot = 0;
    bool ready = false;    ///< in this backward
    bool used = false;     ///< got a gradient since the last averaging, perhaps under no_sync
    bool expected = true;  ///< some forward's graph reaches it, as far as is known
    std::optional<at::Tensor> kept =
        {};  ///< its gradient before averaging, while nobody is known to have used it
  };

  void watch(std::size_t index);
  void on_gradient(std::size_t index) override;
  void begin();
  void mark_ready(std::size_t index, bool has_gradient);
  void begin_static_pass();
  void end_static_pass();
  void end_run() override;
  void leave_run(bool is_over) noexcept override;
  void begin_backward();
  void end_backward(bool has_averaged);
  void end_local();
  void finish();
  void complete_unready();
  /// What backward made of a parameter, for ranks to agree on.
  enum Use : std::uint8_t { kNoGradient, kUnused, kUsed };
  std::uint8_t use_of(const Parameter& state) const;
  void attach_results(std::span<const std::uint8_t> used_anywhere);
  void account(Averaging::Clock::time_point waiting, Averaging::Clock::time_point done);
  void rebuild_if_better();
  void lay_out(std::span<const std::size_t> order, std::span<const std::size_t> ends = {});
  void find_places();
  void retire(const std::string& parameter) noexcept;
  void remove_hooks() noexcept;
  /// Runs it. Remembers an error, tells the other ranks where they do not know, and throws it on.
  template <typename Action>
  void guard(const Action& action) {
    try {
      action();
    } catch (...) {
      fail();
    }
  }
  [[noreturn]] void fail();
  void settle() noexcept;

  std::vector<NamedTensor> parameters_;
  Communicator communicator_;
  const ReducerOptions options_;
  std::vector<std::unique_ptr<Averaging>> kinds_;
  const bool outlasts_backward_;  ///< some kind does
  std::vector<Parameter> states_;
  std::uint32_t steps_ = 0;  ///< begun, and such as this rank's backward() missed
  LeafWatch leaf_watch_;
  bool is_awaited_ = false;             ///< a backward() that reaches a parameter
  std::unique_ptr<StaticGraph> graph_;  ///< null without static_graph
  std::vector<std::size_t> order_;      ///< of all parameters, that kinds were laid out by
  std::vector<std::size_t> ready_order_;
  bool has_expectation_ = false;  ///< from a forward since the last averaging
  Replicator* buffers_ = nullptr;
  std::function<void(Communicator&)> check_;
  JoinAgreement* join_ = nullptr;
  StepShare share_;         ///< of the step in which this rank is, or of the last one
  bool has_share_ = false;  ///< known before the first gradient
  bool is_local_ = false;
  bool is_deferred_ = false;
  const bool hears_of_all_;   ///< some kind does
  bool in_run_ = false;       ///< between its begin_backward() and end_backward()
  bool in_backward_ = false;  ///< that averages
  bool is_between_runs_ = false;
  bool end_is_queued_ = false;
  bool rebuilt_ = false;
  std::exception_ptr error_;
  CommunicationStatistics last_step_;
  CommunicationStatistics total_;
};

}  // namespace kolo::train
