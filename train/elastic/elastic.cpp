#include "kolo/train/elastic.hpp"

#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "elastic/held_state.hpp"
#include "kolo/error.hpp"
#include "kolo/store.hpp"
#include "kolo/work.hpp"
#include "ranks/agreement.hpp"
#include "ranks/model.hpp"

namespace kolo {
namespace train {
namespace {

using Clock = std::chrono::steady_clock;

/// After newcomers could not come in, rank 0 does not call for them again for so long.
constexpr auto kNewcomersWait = std::chrono::seconds(5);

/// What a rank has of the training state, the more the better.
enum Has : std::int64_t {
  kLost,   ///< nothing: it was about to copy it
  kNew,    ///< nothing: it does not know of the others yet
  kStart,  ///< nothing, and no rank had more when training began
  kCopy,   ///< another rank's, which is not loaded
  kLive,
};

struct Standing {
  std::int64_t steps = -1;
  std::int64_t has = kNew;
  auto operator<=>(const Standing&) const = default;
};

}  // namespace

class ElasticRun {
 public:
  ElasticRun(Communicator& ranks, const ElasticOptions& options, const ElasticSetup& setup,
             const ElasticStep& step)
      : ranks_(ranks), options_(options), setup_(setup), step_(step) {}

  std::uint64_t run();

 private:
  std::vector<Standing> standings();
  void settle();
  void set_up(bool is_lost);
  bool train();
  bool newcomers_wait();
  void regroup();
  std::string save(const std::string& folder);
  void require_enough();

  Communicator& ranks_;
  const ElasticOptions& options_;
  const ElasticSetup& setup_;
  const ElasticStep& step_;

  Communicator group_;  ///< of ranks_, in an order in which rank 0 has the state
  Standing standing_;
  std::unique_ptr<Checkpoint> state_;
  std::optional<HeldState> held_;  ///< the state, as long as `state_` is not whole
  std::uint8_t wait_ = 0;          ///< newcomers, as far as all ranks know when `looking_` is done
  Work looking_;
  Clock::time_point no_look_before_{};
  ElasticChange change_;
  Clock::time_point ended_ = Clock::now();
};

std::vector<Standing> ElasticRun::standings() {
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(ranks_.size()));
  const std::array<std::int64_t, 2> mine{standing_.steps, standing_.has};
  ranks_.all_gather(ConstBuffer(mine), Buffer(all));
  std::vector<Standing> result;
  for (std::size_t i = 0; i < all.size(); i += 2) result.push_back({all[i], all[i + 1]});
  return result;
}

/// Collective: all ranks have the state of one step, and what `setup` makes for the group.
void ElasticRun::settle() {
  const std::vector<Standing> all = standings();
  const auto found = std::ranges::max_element(all);  // the first one
  const Standing best = *found;
  const int rank = ranks_.rank(), source = static_cast<int>(found - all.begin());
  const bool is_new = standing_.has == kNew && best.has >= kCopy;
  const bool is_lost = best.has < kStart && std::ranges::count(all, kLost, &Standing::has) > 0;
  if (standing_.has == kNew) standing_.has = best.has >= kCopy || is_lost ? kLost : kStart;
  change_.origin = best.has >= kCopy ? "what the ranks have" : "the start";
  if (best.has >= kCopy &&
      std::ranges::any_of(all, [&](const Standing& one) { return one.steps < best.steps; })) {
    const bool copies = standing_.steps < best.steps;
    change_.origin = "what rank " + std::to_string(source) + " has";
    Communicator copying = ranks_.split(copies || rank == source ? 0 : 1, rank == source ? 0 : 1);
    if (copies) {
      held_ = HeldState::from(copying, nullptr, 0);
      standing_ = {best.steps, kCopy};
    } else if (rank == source) {
      HeldState::from(copying, &*held_, 0);
    }
  }
  // A wrapper copies the parameters of its rank 0.
  const Standing live{best.steps, kLive};
  const bool is_live = all[static_cast<std::size_t>(rank)] == live;
  group_ = best.has < kCopy || all.front() == live ? ranks_ : ranks_.split(0, is_live ? 0 : 1);
  set_up(is_lost);
  // Survivors' random numbers go on.
  if (is_new)
    torch::manual_seed(hash_of(&standing_.steps, sizeof standing_.steps) + static_cast<std::uint64_t>(rank));
}

void ElasticRun::set_up(bool is_lost) {
  state_ = std::make_unique<Checkpoint>();
  setup_(group_, *state_);
  if (held_) {
    state_->load(*held_);
  } else if (!options_.folder.empty()) {
    standing_.steps = static_cast<std::int64_t>(is_lost ? state_->load(options_.folder, group_)
                                                        : state_->resume(options_.folder, group_));
    if (standing_.steps > 0) change_.origin = options_.folder;
  } else if (is_lost) {
    throw Error("the state of training is lost with the ranks that had it, and there are no checkpoints", {});
  } else {
    standing_.steps = 0;
  }
  standing_.has = kLive;
  held_.reset();
}

/// Whether rank 0 has said so; each rank learns of it at the same step.
bool ElasticRun::newcomers_wait() {
  if (options_.look_every == 0 || static_cast<std::uint64_t>(standing_.steps) % options_.look_every != 0)
    return false;
  looking_.wait();
  if (std::exchange(looking_, {}).valid() && wait_ != 0) return true;
  wait_ = ranks_.has_newcomers() && Clock::now() >= no_look_before_ ? 1 : 0;
  if (wait_ == 1 && options_.most > 0 && ranks_.size() >= options_.most) wait_ = 0;
  looking_ = ranks_.all_reduce_async(Buffer(&wait_, 1, DType::uint8), ReduceOp::max);
  return false;
}

/// Returns whether no step is left; else newcomers wait.
bool ElasticRun::train() {
  state_->mark();
  for (;;) {
    if (newcomers_wait()) {
      if (HeldState(state_->collect()).is_part()) save(options_.folder);
      return false;
    }
    const auto finished = static_cast<std::uint64_t>(standing_.steps);
    if (!step_(group_, finished)) break;
    ++standing_.steps;
    state_->mark();
    if (options_.save_every > 0 && (finished + 1) % options_.save_every == 0 && !options_.folder.empty())
      state_->save(options_.folder, finished + 1, group_);
  }
  // No rank leaves before all have finished: one that is behind would have nobody to copy from.
  static_cast<void>(ranks_.all_reduce(std::uint8_t{0}));
  state_->wait();
  return true;
}

void ElasticRun::regroup() {
  change_.size_before = ranks_.size();
  if (standing_.has == kLive && !held_) {
    state_->set_back();
    held_.emplace(state_->collect());
    if (held_->is_part()) {  // a part was lost, or other ranks have other ones from now on
      held_.reset();
      standing_ = {-1, kLost};
    }
  }
  state_.reset();
  group_ = {};
  looking_ = {};
  try {
    ranks_ = ranks_.regroup(nullptr, {.most = options_.most, .serve = options_.serve});
  } catch (const QuorumError& error) {
    if (!held_ || options_.folder.empty()) throw;
    ranks_ = Communicator::create(make_memory_store(), 0, 1, {.measure_costs = false});
    settle();
    throw QuorumError(error.what() + save(options_.folder + "/cut-off-rank-" + std::to_string(change_.rank)),
                      error.context());
  } catch (const PeerLostError&) {
    if (!options_.join) throw;
    held_.reset();
    standing_ = {};
    change_.size_before = 0;
    ranks_ = options_.join();
  }
  if (change_.why.empty() && ranks_.size() <= change_.size_before)
    no_look_before_ = Clock::now() + kNewcomersWait;
}

/// Collective: writes a checkpoint, and returns what to add to an error.
std::string ElasticRun::save(const std::string& folder) {
  if (folder.empty()) return {};
  state_->save(folder, static_cast<std::uint64_t>(standing_.steps), group_);
  state_->wait();
  return "; step " + std::to_string(standing_.steps) + " is in " + folder;
}

void ElasticRun::require_enough() {
  if (ranks_.size() >= options_.least) return;
  const std::string text = std::to_string(ranks_.size()) + " ranks are left, and at least " +
                           std::to_string(options_.least) + " must be there";
  throw QuorumError(text + save(options_.folder), {.collective = "run_elastic"});
}

std::uint64_t ElasticRun::run() {
  for (;;) {
    std::exception_ptr hung;
    try {
      settle();
      require_enough();
      change_.rank = group_.rank();
      change_.size = group_.size();
      change_.step = static_cast<std::uint64_t>(standing_.steps);
      change_.lost = Clock::now() - ended_;
      if (options_.on_change) {
        options_.on_change(change_);
      } else if (change_.rank == 0) {
        std::fprintf(stderr, "kolo: %d ranks go on after step %llu with %s, after %.3f s%s%s\n", change_.size,
                     static_cast<unsigned long long>(change_.step), change_.origin.c_str(),
                     std::chrono::duration<double>(change_.lost).count(), change_.why.empty() ? "" : ": ",
                     change_.why.c_str());
      }
      if (train()) return static_cast<std::uint64_t>(standing_.steps);
      change_.why.clear();
    } catch (const PeerLostError& error) {
      change_.why = error.what();
    } catch (const TimeoutError& error) {
      hung = std::current_exception();
      change_.why = error.what();
    } catch (const AbortedError& error) {
      hung = std::current_exception();
      change_.why = error.what();
    } catch (...) {
      tell_others(ranks_);
      throw;
    }
    ended_ = Clock::now();
    regroup();
    if (hung && ranks_.size() >= change_.size_before) std::rethrow_exception(hung);  // nobody was lost
  }
}

}  // namespace train

std::uint64_t run_elastic(Communicator& communicator, const ElasticOptions& options,
                          const ElasticSetup& setup, const ElasticStep& step) {
  return train::ElasticRun(communicator, options, setup, step).run();
}

std::string describe_model(const torch::nn::Module& model) {
  const train::NamedTensors tensors = train::tensors_of(model);
  std::int64_t numbers = 0;
  for (const NamedTensor& one : tensors) numbers += one.tensor.numel();
  const std::string text = train::text_of_layout(tensors);
  std::ostringstream words;
  words << tensors.size() << " tensors of " << numbers << " numbers, " << std::hex
        << train::hash_of(text.data(), text.size());
  return words.str();
}

}  // namespace kolo
