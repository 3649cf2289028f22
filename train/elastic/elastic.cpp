#include "kolo/train/elastic.hpp"

#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "checkpoint/transfer.hpp"
#include "elastic/held_state.hpp"
#include "kolo/error.hpp"
#include "kolo/store.hpp"
#include "kolo/work.hpp"
#include "placement/placement.hpp"
#include "ranks/agreement.hpp"
#include "ranks/model.hpp"

namespace kolo {
namespace train {
namespace {

using Clock = std::chrono::steady_clock;

/// After newcomers could not come in, rank 0 does not call for them again for so long.
constexpr auto kNewcomersWait = std::chrono::seconds(5);

/// Of messages with copies.
constexpr int kCopyTag = 0x7fffffff;

/// What a rank knows of training.
enum Training : int {
  kUnknown,  ///< nothing: it has just come
  kAtStart,  ///< no rank had a state when it came
  kBegun,
};

/// Which part of which state a rank holds. A model that all ranks hold whole is one part.
struct Part {
  std::int64_t steps = 0;     ///< of the state
  std::int64_t division = 0;  ///< number of the group that has divided it
  std::uint64_t regions = 0;  ///< a hash: replicas have the same
  std::int64_t parts = 0;     ///< of the state; 0: this rank does not know
  bool is_copy = false;       ///< no model of this rank has it
  bool is_of(const Part& state) const { return steps == state.steps && division == state.division; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Part, steps, division, regions, parts, is_copy)

struct Standing {
  Training training = kUnknown;
  std::vector<Part> parts = {};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Standing, training, parts)

/// The newest state of which ranks have all parts; a copy where some are copies alone.
std::optional<Part> newest_whole(const std::vector<Standing>& all) {
  struct Found {
    std::set<std::uint64_t> regions = {}, live = {};
    std::int64_t parts = 0;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Found, std::greater<>> states;
  for (const Standing& rank : all) {
    for (const Part& part : rank.parts) {
      Found& state = states[{part.steps, part.division}];
      state.regions.insert(part.regions);
      if (!part.is_copy) state.live.insert(part.regions);
      state.parts = std::max(state.parts, part.parts);
    }
  }
  for (const auto& [which, state] : states) {
    if (!std::cmp_equal(state.regions.size(), state.parts)) continue;
    return Part{which.first, which.second, *state.regions.begin(), state.parts,
                state.live.size() < state.regions.size()};
  }
  return {};
}

}  // namespace

class ElasticRun {
 public:
  ElasticRun(Communicator& ranks, const ElasticOptions& options, const ElasticSetup& setup,
             const ElasticStep& step)
      : ranks_(ranks), options_(options), setup_(setup), step_(step) {}
  ~ElasticRun() { end_copy(); }
  ElasticRun(const ElasticRun&) = delete;
  ElasticRun& operator=(const ElasticRun&) = delete;

  std::uint64_t run();

 private:
  struct Held {
    Part part;
    std::vector<PlacedParameter> tensors;
  };
  struct Copy {
    Part part;
    at::Tensor bytes;
  };

  std::vector<Standing> standings();
  std::vector<PlacedParameter> held_of(const Part& state) const;
  void settle();
  void set_up(const std::optional<Part>& state, bool is_lost);
  void find_parts();
  bool is_copied() const { return options_.copy_every > 0 && own_.parts > 1; }
  void start_copy();
  void end_copy() noexcept;
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
  Training training_ = kUnknown;
  std::unique_ptr<Checkpoint> state_;
  Part own_;                     ///< of `state_`
  bool is_live_ = false;         ///< `state_` has it
  std::vector<Held> held_;       ///< what this rank had, until all ranks have what they need
  std::vector<Copy> copies_;     ///< of this rank's part and of a neighbour's, in turn
  std::array<Work, 2> copying_;  ///< the last two
  std::uint8_t wait_ = 0;        ///< newcomers, as far as all ranks know when `looking_` is done
  Work looking_;
  Clock::time_point no_look_before_{};
  ElasticChange change_;
  Clock::time_point ended_ = Clock::now();
};

std::vector<Standing> ElasticRun::standings() {
  Standing mine{training_};
  for (const Held& one : held_) mine.parts.push_back(one.part);
  std::vector<Standing> all;
  for (const std::string& text : texts_of_all(ranks_, nlohmann::json(mine).dump()))
    all.push_back(nlohmann::json::parse(text).get<Standing>());
  return all;
}

std::vector<PlacedParameter> ElasticRun::held_of(const Part& state) const {
  std::vector<PlacedParameter> tensors;
  for (const Held& one : held_)
    if (one.part.is_of(state)) tensors.insert(tensors.end(), one.tensors.begin(), one.tensors.end());
  return tensors;
}

/// Collective: all ranks have the state of one step, and what `setup` makes for the group.
void ElasticRun::settle() {
  const std::vector<Standing> all = standings();
  const std::optional<Part> state = newest_whole(all);
  const auto has_it = [&](const Standing& rank, bool may_be_copy) {
    return std::ranges::any_of(rank.parts, [&](const Part& part) {
      return state && part.is_of(*state) && (may_be_copy || !part.is_copy);
    });
  };
  const bool is_new = training_ == kUnknown && state;
  const bool is_lost = !state && std::ranges::count(all, kAtStart, &Standing::training) == 0 &&
                       std::ranges::count(all, kBegun, &Standing::training) > 0;
  if (training_ == kUnknown) training_ = state || is_lost ? kBegun : kAtStart;
  group_ = ranks_;
  if (!state) {
    change_.origin = "the start";
  } else if (state->parts > 1 && !change_.why.empty()) {
    change_.origin = state->is_copy ? "copies that neighbours have" : "replicas of what was lost";
  } else {
    change_.origin = "what the ranks have";
  }
  if (state && state->parts == 1) {
    const auto has = [&](const Standing& rank) { return has_it(rank, true); };
    const int rank = ranks_.rank(), source = static_cast<int>(std::ranges::find_if(all, has) - all.begin());
    if (!std::ranges::all_of(all, has)) {
      const bool copies = !has(all[static_cast<std::size_t>(rank)]);
      change_.origin = "what rank " + std::to_string(source) + " has";
      Communicator copying = ranks_.split(copies || rank == source ? 0 : 1, rank == source ? 0 : 1);
      if (copies) {
        auto tensors = HeldState::from(copying, {}, 0);
        held_.clear();
        held_.push_back({*state, std::move(tensors)});
        held_.back().part.is_copy = true;
      } else if (rank == source) {
        HeldState::from(copying, held_of(*state), 0);
      }
    }
    // A wrapper copies the parameters of its rank 0.
    if (!has_it(all.front(), false))
      group_ = ranks_.split(0, has_it(all[static_cast<std::size_t>(rank)], false) ? 0 : 1);
  }
  own_ = {.division = 1};
  for (const Standing& rank : all)
    for (const Part& part : rank.parts) own_.division = std::max(own_.division, part.division + 1);
  set_up(state, is_lost);
  find_parts();
  if (is_copied()) {
    start_copy();
    kolo::wait_all(copying_);
    static_cast<void>(ranks_.all_reduce(std::uint8_t{0}));
  }
  held_.clear();
  // Survivors' random numbers go on.
  if (is_new)
    torch::manual_seed(hash_of(&own_.steps, sizeof own_.steps) + static_cast<std::uint64_t>(ranks_.rank()));
}

void ElasticRun::set_up(const std::optional<Part>& state, bool is_lost) {
  state_ = std::make_unique<Checkpoint>();
  setup_(group_, *state_);
  if (state) {
    HeldState there(held_of(*state), state->parts == 1 ? Communicator() : ranks_);
    state_->load(there);
    own_.steps = state->steps;
  } else if (!options_.folder.empty()) {
    own_.steps = static_cast<std::int64_t>(is_lost ? state_->load(options_.folder, group_)
                                                   : state_->resume(options_.folder, group_));
    if (own_.steps > 0) change_.origin = options_.folder;
  } else if (is_lost) {
    throw Error("the state of training is lost with the ranks that had it, and there are no checkpoints", {});
  }
}

/// Collective: when it returns, all ranks have loaded their parts.
void ElasticRun::find_parts() {
  std::string regions;
  for (const PlacedParameter& one : state_->placed())
    regions += key_of(one.name, shortest_region(one)) + '\n';
  own_.regions = hash_of(regions.data(), regions.size());
  is_live_ = true;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(ranks_.size()));
  ranks_.all_gather(ConstBuffer(&own_.regions, 1, DType::uint64), Buffer(all));
  own_.parts = static_cast<std::int64_t>(std::set(all.begin(), all.end()).size());
  training_ = kBegun;
}

/// Collective: a neighbour gets a copy of this rank's part. It counts once all ranks have it, which they know
/// when the next one starts.
void ElasticRun::start_copy() {
  kolo::wait_all(copying_);
  const int size = ranks_.size(), half = size / 2;  // on another host, where ranks fill hosts in their order
  const int to = (ranks_.rank() + half) % size, from = (ranks_.rank() + size - half) % size;
  Copy mine{own_, pack(state_->collect())}, other = mine;
  mine.part.is_copy = other.part.is_copy = true;
  const std::array<std::uint64_t, 2> about{mine.bytes.nbytes(), own_.regions};
  std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(size));
  ranks_.all_gather(ConstBuffer(about), Buffer(all));
  if (copies_.size() > 2) copies_.erase(copies_.begin(), copies_.end() - 2);
  other.bytes = at::empty({static_cast<std::int64_t>(all[2 * static_cast<std::size_t>(from)])}, at::kByte);
  other.part.regions = all[2 * static_cast<std::size_t>(from) + 1];
  copying_ = ranks_.sendrecv_async(mine.bytes, to, other.bytes, from, kCopyTag);
  copies_.push_back(std::move(mine));
  copies_.push_back(std::move(other));
}

/// Waits for it, and forgets it where it has failed.
void ElasticRun::end_copy() noexcept {
  static_cast<void>(problem_of([this] { kolo::wait_all(copying_); }));
  if (copying_[1].error()) copies_.pop_back();
  copying_ = {};
}

/// Whether rank 0 has said so; each rank learns of it at the same step.
bool ElasticRun::newcomers_wait() {
  if (options_.look_every == 0 || static_cast<std::uint64_t>(own_.steps) % options_.look_every != 0)
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
    if (newcomers_wait()) return false;
    const auto finished = static_cast<std::uint64_t>(own_.steps);
    if (!step_(group_, finished)) break;
    ++own_.steps;
    state_->mark();
    if (is_copied() && (finished + 1) % options_.copy_every == 0) start_copy();
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
  end_copy();
  if (std::exchange(is_live_, false)) {
    state_->set_back();
    std::vector<PlacedParameter> tensors = state_->collect();
    const auto is_part = [](const PlacedParameter& one) { return one.region != Region(); };
    if (own_.parts != 1 || std::ranges::any_of(tensors, is_part))  // another wrapper writes over shards
      tensors = unpack(pack(tensors));
    held_.insert(held_.begin(), {own_, std::move(tensors)});
  }
  for (const Copy& copy : copies_) held_.push_back({copy.part, unpack(copy.bytes)});
  copies_.clear();
  state_.reset();
  group_ = {};
  looking_ = {};
  try {
    ranks_ = ranks_.regroup(nullptr, {.most = options_.most, .serve = options_.serve});
  } catch (const QuorumError& error) {
    const auto is_whole = [](const Held& one) { return one.part.parts == 1; };
    if (std::ranges::none_of(held_, is_whole) || options_.folder.empty()) throw;
    ranks_ = Communicator::create(make_memory_store(), 0, 1, {.measure_costs = false});
    settle();
    throw QuorumError(error.what() + save(options_.folder + "/cut-off-rank-" + std::to_string(change_.rank)),
                      error.context());
  } catch (const PeerLostError&) {
    if (!options_.join) throw;
    held_.clear();
    training_ = kUnknown;
    change_.size_before = 0;
    ranks_ = options_.join();
  }
  if (change_.why.empty() && ranks_.size() <= change_.size_before)
    no_look_before_ = Clock::now() + kNewcomersWait;
}

/// Collective: writes a checkpoint, and returns what to add to an error.
std::string ElasticRun::save(const std::string& folder) {
  if (folder.empty()) return {};
  state_->save(folder, static_cast<std::uint64_t>(own_.steps), group_);
  state_->wait();
  return "; step " + std::to_string(own_.steps) + " is in " + folder;
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
      change_.step = static_cast<std::uint64_t>(own_.steps);
      change_.lost = Clock::now() - ended_;
      if (options_.on_change) {
        options_.on_change(change_);
      } else if (change_.rank == 0) {
        std::fprintf(stderr, "kolo: %d %s on after step %llu with %s, after %.3f s%s%s\n", change_.size,
                     change_.size == 1 ? "rank goes" : "ranks go",
                     static_cast<unsigned long long>(change_.step), change_.origin.c_str(),
                     std::chrono::duration<double>(change_.lost).count(), change_.why.empty() ? "" : ": ",
                     change_.why.c_str());
      }
      if (train()) return static_cast<std::uint64_t>(own_.steps);
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
