// Simulated cores: ranks and neighbours under a simple scheduler, without real time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "base/core_loss.hpp"
#include "engine/backoff.hpp"

namespace kolo::test {

using Time = std::int64_t;  // ns
constexpr Time kUs = 1000, kMs = 1000 * kUs, kNever = std::numeric_limits<Time>::max() / 4;

/// A scheduler, and what its work costs.
struct Kernel {
  enum class Kind { cfs, eevdf } kind = Kind::eevdf;
  bool forfeits = true;        ///< a yield gives up the rest of the request: Linux 6.18
  Time slice = 1400 * kUs;     ///< EEVDF's request, CFS's least turn
  Time protects = 1400 * kUs;  ///< of a turn before a thread that wakes up may end it
  Time tick = 4 * kMs;         ///< a running thread is preempted at ticks and by threads that wake up
  Time balance = 8 * kMs;      ///< between moves of waiting threads to emptier cores
  bool pulls = false;          ///< a core that becomes idle takes a waiting thread
  Time wake_idle = 35 * kUs;   ///< from a wake-up to the first instruction on an idle core
  Time wake_busy = 3 * kUs;    ///< as above, on a core that runs something
  Time ring = 4 * kUs;         ///< for the rank that wakes another
  Time arm = 5 * kUs;          ///< before a rank sleeps, and after it
  Time switching = 2 * kUs;    ///< from one thread to another
};

/// Is busy for `busy` of each `every` from its first instruction on, by the clock. Between `from` and
/// `until`.
struct Neighbour {
  Time busy = kNever, every = kNever;
  Time from = 0, until = kNever;
};

struct Scene {
  int cores = 2;
  int ranks = 2;
  std::vector<Neighbour> beside = {};
  Time work = 2600;  ///< of a rank in a call
  Time computing = 0;
  Kernel kernel = {};
  std::uint64_t seed = 1;
};

class Cores;

/// What one rank does between two polls.
class Waiting {
 public:
  using Step = engine::Backoff::Step;
  struct Moment {
    Time now, begin;  ///< of this wait
    double lost;      ///< see core_loss()
    const Cores& cores;
    int rank;
  };
  virtual ~Waiting() = default;
  virtual Step next(const Moment& moment) = 0;
  virtual void yielded(Time /*begin*/, Time /*end*/) {}
};
using MakeWaiting = std::function<std::unique_ptr<Waiting>(const Scene&)>;

/// Threads on cores. Each rank computes, works, announces its call and waits until all have announced it.
/// Of 16 polls the last one asks how to go on; later in a wait, after a sixteenth of its time: so a limit is
/// found up to a sixteenth late, and a wait of milliseconds takes few events. The same scene gives the same
/// times.
class Cores {
 public:
  Cores(const Scene& scene, const MakeWaiting& make);
  void run_until(Time end);
  std::int64_t calls() const { return completed_; }
  std::int64_t sleeps() const { return sleeps_; }
  /// Longest time that a rank has spun, by the clock, beside a peer that was waiting for the same core.
  Time longest_beside_peer() const { return longest_beside_peer_; }
  double lost(int rank) const { return threads_[at(rank)].loss.share(); }

  // What only an oracle knows.
  int ready_beside(int rank) const {
    return static_cast<int>(cores_[at(threads_[at(rank)].core)].ready.size());
  }
  /// Time until the last of this rank's peers announces its call, if nothing else happens.
  Time left_of_peers(int rank) const;
  const Scene& scene() const { return scene_; }

 private:
  enum class State { running, ready, asleep };
  enum class Phase { work, spin, arm, woken };
  struct Thread {
    int core = 0;
    State state = State::asleep;
    Time since = 0;  // when the state began, or was accounted for
    Time ran = 0, waited = 0;
    Time vruntime = 0, deadline = 0, picked_at = 0, lag = 0;
    Time left = kNever;   // running, from `since`, until it has something to decide
    Time wakes = kNever;  // if asleep
    int waker = -1;
    Neighbour neighbour = {};
    Time due = 0, busy_until = -1;  // -1 before its first instruction
    // Of a rank:
    Phase phase = Phase::work;
    std::int64_t call = 1;  // the one that it is in
    int polls = 0;
    Time wait_begin = 0, yield_begin = 0, last_move = 0, beside_since = 0;
    bool naps = false;
    int place = -1;      // as published: its core when it announced or looked
    bool waits = false;  // as published
    CoreLoss loss = {};
    std::unique_ptr<Waiting> waiting = nullptr;
  };
  struct Core {
    int current = -1;
    std::vector<int> ready = {};
    Time tick = 0, base = 0;
  };

  static constexpr Time kPoll = 60, kFirst = 2 * kUs, kLooks = 16 * kPoll, kMove = 10 * kUs;
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::size_t load(const Core& core) { return core.ready.size() + (core.current >= 0 ? 1 : 0); }
  static Time next_of(const Thread& thread);
  bool is_rank(int t) const { return t < scene_.ranks; }
  bool is_eevdf() const { return scene_.kernel.kind == Kernel::Kind::eevdf; }
  bool shares_cores() const { return scene_.ranks > scene_.cores; }
  bool is_complete(int t) const { return threads_[at(t)].call <= completed_; }
  std::uint64_t random();
  Time work();
  Time average(const Core& core) const;
  int best(const Core& core) const;
  void account(int c);
  void run(int c, int t);
  void schedule(int c);
  void enqueue(int t, int c);
  void dequeue(int t);
  void refill(int c);
  void migrate(int t, int c);
  void wake(int t);
  void fall_asleep(int t, Time wakes);
  void tick(int c);
  void balance();
  void yield(int c);
  bool look(int t);
  void decide(int t);
  void next_call(int t);
  void announce(int t);
  void ask(int t);
  void jump(Time end);
  Time next_of_cores();

  Scene scene_;
  std::uint64_t seed_;
  Time now_ = 1, next_balance_;
  std::vector<Thread> threads_;  // the ranks, then the neighbours
  std::vector<Core> cores_;
  std::int64_t completed_ = 0;  // calls that all ranks have announced
  int announced_ = 0;           // ranks that have announced the call after these
  std::int64_t sleeps_ = 0;
  Time longest_beside_peer_ = 0;
};

}  // namespace kolo::test
