#include "simulated_cores.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace kolo::test {
namespace {

constexpr Time kBetweenMoves = std::chrono::nanoseconds(engine::Backoff::kBetweenMoves).count();

}  // namespace

Cores::Cores(const Scene& scene, const MakeWaiting& make)
    : scene_(scene),
      seed_(scene.seed),
      next_balance_(scene.kernel.balance > 0 ? scene.kernel.balance : kNever) {
  cores_.resize(at(scene_.cores));
  for (int c = 0; c < scene_.cores; ++c)
    cores_[at(c)].tick = static_cast<Time>(random() % static_cast<std::uint64_t>(scene_.kernel.tick));
  threads_.resize(at(scene_.ranks) + scene_.beside.size());
  for (int t = 0; t < static_cast<int>(threads_.size()); ++t) {
    Thread& thread = threads_[at(t)];
    thread.core = t % scene_.cores;
    if (is_rank(t)) {
      thread.waiting = make(scene_);
      thread.left = work();
      thread.wakes = now_ + t;
    } else {
      thread.neighbour = scene_.beside[at(t - scene_.ranks)];
      thread.core = (t - scene_.ranks) % scene_.cores;
      thread.wakes = thread.due = std::max(thread.neighbour.from, now_ + t);
    }
  }
}

std::uint64_t Cores::random() {
  std::uint64_t z = seed_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// A tenth more or less, and now and then an interrupt.
Time Cores::work() {
  const Time mean = scene_.work + scene_.computing;
  const std::uint64_t r = random();
  const Time interrupt = (r >> 32) % 2048 == 0 ? 5 * kUs : 0;
  return mean * (900 + static_cast<Time>(r % 201)) / 1000 + interrupt;
}

Time Cores::average(const Core& core) const {
  Time sum = 0;
  Time n = 0;
  for (const int t : core.ready) sum += threads_[at(t)].vruntime - core.base, ++n;
  if (core.current >= 0) sum += threads_[at(core.current)].vruntime - core.base, ++n;
  return core.base + (n > 0 ? sum / n : 0);
}

/// The thread that the scheduler runs next: of those that are owed time, the one whose request ends first.
int Cores::best(const Core& core) const {
  const Time limit = is_eevdf() ? average(core) : kNever;
  int found = -1;
  const auto look = [&](int t) {
    const Thread& thread = threads_[at(t)];
    if (thread.vruntime > limit) return;
    const auto key = [&](int i) { return is_eevdf() ? threads_[at(i)].deadline : threads_[at(i)].vruntime; };
    if (found < 0 || key(t) < key(found)) found = t;
  };
  if (core.current >= 0) look(core.current);
  for (const int t : core.ready) look(t);
  return found;
}

void Cores::account(int c) {
  Core& core = cores_[at(c)];
  if (core.current < 0) return;
  Thread& thread = threads_[at(core.current)];
  const Time ran = now_ - thread.since;
  thread.since = now_;
  thread.ran += ran;
  thread.vruntime += ran;
  if (thread.left < kNever) thread.left -= ran;
}

void Cores::run(int c, int t) {
  Core& core = cores_[at(c)];
  std::erase(core.ready, t);
  core.current = t;
  Thread& thread = threads_[at(t)];
  thread.waited += now_ - thread.since;
  thread.since = now_;
  thread.state = State::running;
  thread.picked_at = thread.ran;
  core.base = thread.vruntime;
  if (thread.left < kNever) thread.left += scene_.kernel.switching;
  if (!is_rank(t)) {
    if (thread.busy_until < 0)
      thread.busy_until = std::min(now_ + thread.neighbour.busy, thread.neighbour.until);
    thread.left = thread.busy_until >= kNever ? kNever : std::max<Time>(thread.busy_until - now_, 0);
  } else if (thread.phase == Phase::spin) {
    thread.beside_since = 0;
    if (std::exchange(thread.yield_begin, 0) > 0) thread.waiting->yielded(thread.yield_begin, now_);
    thread.left = scene_.kernel.switching + kPoll;
  }
}

void Cores::schedule(int c) {
  Core& core = cores_[at(c)];
  const int next = best(core);
  if (next == core.current) return;
  if (core.current >= 0) {
    threads_[at(core.current)].state = State::ready;
    core.ready.push_back(std::exchange(core.current, -1));
  }
  run(c, next);
}

void Cores::enqueue(int t, int c) {
  Core& core = cores_[at(c)];
  account(c);
  Thread& thread = threads_[at(t)];
  const Time n = static_cast<Time>(core.ready.size()) + (core.current >= 0 ? 1 : 0);
  if (is_eevdf()) {
    const Time lag = std::clamp(thread.lag, -scene_.kernel.slice, scene_.kernel.slice);
    thread.vruntime = average(core) - (n > 0 ? lag * (n + 1) / n : 0);
  } else {
    thread.vruntime = (n > 0 ? threads_[at(best(core))].vruntime : core.base) - thread.lag;
  }
  thread.deadline = thread.vruntime + scene_.kernel.slice;
  thread.core = c;
  thread.since = now_;
  thread.state = State::ready;
  thread.wakes = kNever;
  core.ready.push_back(t);
  if (core.current < 0) return run(c, t);
  const Thread& current = threads_[at(core.current)];
  const bool gives_way = is_eevdf() ? current.ran - current.picked_at >= scene_.kernel.protects
                                    : current.vruntime - thread.vruntime > scene_.kernel.slice / 2;
  if (gives_way && best(core) == t) schedule(c);
}

/// A ready or running thread leaves its core, which may then have nothing to run.
void Cores::dequeue(int t) {
  Thread& thread = threads_[at(t)];
  Core& core = cores_[at(thread.core)];
  account(thread.core);
  if (is_eevdf()) {
    thread.lag = average(core) - thread.vruntime;
  } else {
    thread.lag = threads_[at(best(core))].vruntime - thread.vruntime;
  }
  if (thread.state == State::ready) {
    thread.waited += now_ - thread.since;
    std::erase(core.ready, t);
  } else {
    core.base = thread.vruntime;
    core.current = -1;
  }
  thread.since = now_;
}

void Cores::refill(int c) {
  if (cores_[at(c)].current >= 0) return;
  if (cores_[at(c)].ready.empty() && scene_.kernel.pulls) {
    const auto fullest =
        std::ranges::max_element(cores_, {}, [](const Core& core) { return core.ready.size(); });
    if (!fullest->ready.empty()) return migrate(fullest->ready.front(), c);
  }
  if (!cores_[at(c)].ready.empty()) schedule(c);
}

void Cores::migrate(int t, int c) {
  const int from = threads_[at(t)].core;
  dequeue(t);
  enqueue(t, c);
  if (from != c) refill(from);
}

/// Where a thread wakes up: an idle core, or else that of the thread that wakes it if it is emptier.
void Cores::wake(int t) {
  Thread& thread = threads_[at(t)];
  const auto load_of = [&](int c) { return load(cores_[at(c)]); };
  int c = thread.core;
  for (int i = 0; i < scene_.cores && load_of(c) > 0; ++i) {
    if (load_of(i) == 0) c = i;
  }
  const int there = thread.waker < 0 ? c : threads_[at(thread.waker)].core;
  if (load_of(there) < load_of(c)) c = there;
  // EEVDF forgets meanwhile what a thread owed when it fell asleep. CFS lends it some time.
  const Time slept = now_ - thread.since;
  if (!is_eevdf()) thread.lag = std::min(thread.lag + slept, 2 * scene_.kernel.slice);
  if (is_eevdf() && thread.lag < 0) thread.lag = std::min<Time>(thread.lag + slept, 0);
  if (!is_rank(t)) thread.busy_until = -1;
  enqueue(t, c);
}

void Cores::tick(int c) {
  Core& core = cores_[at(c)];
  core.tick += scene_.kernel.tick;
  if (core.current < 0 || core.ready.empty()) return;
  account(c);
  Thread& current = threads_[at(core.current)];
  if (is_eevdf()) {
    if (current.vruntime < current.deadline) return;
    current.deadline = current.vruntime + scene_.kernel.slice;
    schedule(c);
  } else if (current.ran - current.picked_at >= scene_.kernel.slice) {
    schedule(c);
  }
}

/// Moves a waiting thread from the fullest core to the emptiest one, also if the difference is one: then
/// threads get the same time, whatever core they began on.
void Cores::balance() {
  next_balance_ += scene_.kernel.balance / 2 +
                   static_cast<Time>(random() % static_cast<std::uint64_t>(scene_.kernel.balance));
  const auto [least, most] = std::ranges::minmax_element(cores_, {}, load);
  if (load(*most) <= load(*least) || most->ready.empty()) return;
  migrate(most->ready[at(static_cast<int>(random() % most->ready.size()))],
          static_cast<int>(least - cores_.begin()));
}

void Cores::yield(int c) {
  Core& core = cores_[at(c)];
  account(c);
  Thread& current = threads_[at(core.current)];
  const int t = core.current;
  current.left = 5 * kPoll;
  if (core.ready.empty()) return;
  current.yield_begin = now_;
  if (is_eevdf()) {
    if (scene_.kernel.forfeits && current.vruntime <= average(core)) current.vruntime = current.deadline;
    current.deadline += scene_.kernel.slice;
    schedule(c);
    if (core.current == t) current.yield_begin = 0;
  } else {
    core.current = -1;
    const int next = best(core);
    core.current = t;
    if (threads_[at(next)].vruntime - current.vruntime > scene_.kernel.slice) {
      current.yield_begin = 0;
      return;
    }
    current.state = State::ready;
    core.ready.push_back(t);
    core.current = -1;
    run(c, next);
  }
}

void Cores::next_call(int t) {
  Thread& thread = threads_[at(t)];
  ++thread.call;
  thread.phase = Phase::work;
  thread.left = work();
}

void Cores::announce(int t) {
  Thread& thread = threads_[at(t)];
  thread.place = thread.core;
  thread.waits = false;
  const bool is_last = ++announced_ == scene_.ranks;
  if (is_last) ++completed_, announced_ = 0;
  Time cost = 0;
  for (int r = 0; r < scene_.ranks; ++r) {
    Thread& peer = threads_[at(r)];
    if (r == t || peer.phase == Phase::work) continue;
    if (peer.phase == Phase::spin && peer.state == State::running && is_last) {
      account(peer.core);
      peer.left = std::min(peer.left, kPoll);
    }
    if (peer.state != State::asleep || peer.wakes != kNever || (peer.naps && !is_last)) continue;
    // A system call for each sleeper, one for all that nap.
    cost += peer.naps && cost > 0 ? scene_.kernel.ring / 4 : scene_.kernel.ring;
    const bool idles = std::ranges::any_of(cores_, [](const Core& core) { return core.current < 0; });
    peer.wakes = now_ + cost + (idles ? scene_.kernel.wake_idle : scene_.kernel.wake_busy);
    peer.waker = t;
  }
  thread.phase = Phase::spin;
  thread.wait_begin = thread.beside_since = 0;
  thread.polls = 0;
  thread.left = cost + (is_last ? 0 : shares_cores() ? kPoll : kFirst);
  if (is_last && cost == 0) next_call(t);
}

/// After a poll that found the call incomplete.
void Cores::ask(int t) {
  Thread& thread = threads_[at(t)];
  if (shares_cores() && ++thread.polls < 20) return yield(thread.core);
  if (thread.wait_begin == 0) thread.wait_begin = now_;
  account(thread.core);
  const auto now = Clock::time_point(std::chrono::nanoseconds(now_));
  if (thread.loss.is_due(now))
    thread.loss.note(now,
                     CoreLoss::Times{static_cast<double>(thread.ran), static_cast<double>(thread.waited)});
  const auto step = thread.waiting->next({now_, thread.wait_begin, thread.loss.share(), *this, t});
  thread.phase = Phase::spin;
  switch (step) {
    case Waiting::Step::yield:
      return yield(thread.core);
    case Waiting::Step::nap:
    case Waiting::Step::sleep:
      thread.naps = step == Waiting::Step::nap;
      thread.phase = Phase::arm;
      thread.left = scene_.kernel.arm;
      return;
    case Waiting::Step::look:
      if (look(t)) return;
      [[fallthrough]];
    case Waiting::Step::poll:
    case Waiting::Step::pause:
      thread.left = std::max(kLooks, (now_ - thread.wait_begin) / 16);
  }
}

/// As Peers::shares_core() and Driver::leave_shared_core() do. Returns whether the rank has moved.
bool Cores::look(int t) {
  Thread& thread = threads_[at(t)];
  thread.place = thread.core;
  thread.waits = true;
  bool leaves = false;
  bool hinders = false;
  for (int r = 0; r < scene_.ranks; ++r) {
    const Thread& peer = threads_[at(r)];
    leaves = leaves || (r != t && peer.place == thread.core && (!peer.waits || r < t));
    hinders = hinders || (peer.core == thread.core && peer.state == State::ready);
  }
  if (!hinders) thread.beside_since = 0;
  if (hinders && thread.beside_since == 0) thread.beside_since = now_;
  if (hinders) longest_beside_peer_ = std::max(longest_beside_peer_, now_ - thread.beside_since);
  if (!leaves || scene_.cores == 1 || now_ - thread.last_move < kBetweenMoves) return false;
  thread.last_move = now_;
  std::vector<int> free;
  for (int c = 0; c < scene_.cores; ++c) {
    const auto ranks = std::span(threads_).first(static_cast<std::size_t>(scene_.ranks));
    if (std::ranges::none_of(ranks, [&](const Thread& rank) { return rank.place == c; })) free.push_back(c);
  }
  if (free.empty()) return false;
  thread.left = kMove;
  migrate(t, free[random() % free.size()]);
  return true;
}

/// A running thread has come to the end of what it does.
void Cores::decide(int t) {
  Thread& thread = threads_[at(t)];
  if (!is_rank(t)) {
    thread.due += thread.neighbour.every;
    if (now_ - thread.due > 2 * thread.neighbour.every) thread.due = now_;
    if (thread.due >= thread.neighbour.until) thread.due = kNever;
    return fall_asleep(t, std::max(thread.due, now_));
  }
  if (thread.phase == Phase::work) return announce(t);
  if (is_complete(t)) return next_call(t);
  if (thread.phase != Phase::arm) return ask(t);
  thread.phase = Phase::woken;
  thread.wait_begin = 0;
  ++sleeps_;
  thread.left = scene_.kernel.arm;
  fall_asleep(t, kNever);
}

void Cores::fall_asleep(int t, Time wakes) {
  const int c = threads_[at(t)].core;
  dequeue(t);
  threads_[at(t)].state = State::asleep;
  threads_[at(t)].wakes = wakes;
  refill(c);
}

/// When the thread itself has something to do, if nothing else happens.
Time Cores::next_of(const Thread& thread) {
  if (thread.state == State::asleep) return thread.wakes;
  return thread.state == State::running && thread.left < kNever ? thread.since + thread.left : kNever;
}

/// Calls in which all ranks run and no scheduler has anything to do until the end of a call.
void Cores::jump(Time end) {
  Time until = end;
  for (int t = 0; t < static_cast<int>(threads_.size()); ++t) {
    const Thread& thread = threads_[at(t)];
    if (is_rank(t)) {
      if (thread.state != State::running || thread.phase != Phase::work || thread.call != completed_ + 1)
        return;
    } else {
      until = std::min(until, next_of(thread));
    }
  }
  if (announced_ > 0) return;
  until = std::min(until, next_of_cores());
  while (true) {
    Time first = kNever, last = 0;
    for (int r = 0; r < scene_.ranks; ++r) {
      const Time ends = threads_[at(r)].since + threads_[at(r)].left;
      first = std::min(first, ends);
      last = std::max(last, ends);
    }
    if (last + kPoll >= until || last - first >= kFirst) return;
    ++completed_;
    for (int r = 0; r < scene_.ranks; ++r) {
      Thread& thread = threads_[at(r)];
      const Time begins = thread.since + thread.left == last ? last : last + kPoll;
      thread.place = thread.core;
      thread.waits = false;
      ++thread.call;
      thread.left = begins + work() - thread.since;
    }
  }
}

/// The next tick that finds two threads on a core, or the next balancing.
Time Cores::next_of_cores() {
  Time next = next_balance_;
  for (Core& core : cores_) {
    while (core.tick < now_) core.tick += scene_.kernel.tick;
    if (!core.ready.empty()) next = std::min(next, core.tick);
  }
  return next;
}

void Cores::run_until(Time end) {
  while (true) {
    jump(end);
    Time next = next_of_cores();
    int found = -1;
    for (int t = 0; t < static_cast<int>(threads_.size()); ++t) {
      const Thread& thread = threads_[at(t)];
      const Time then = next_of(thread);
      if (then < next) next = then, found = t;
    }
    if (next >= end) break;
    now_ = std::max(now_, next);
    if (found >= 0) {
      Thread& thread = threads_[at(found)];
      if (thread.state == State::asleep) {
        wake(found);
      } else {
        account(thread.core);
        decide(found);
      }
    } else if (next == next_balance_) {
      balance();
    } else {
      for (int c = 0; c < scene_.cores; ++c) {
        if (cores_[at(c)].tick == next && !cores_[at(c)].ready.empty()) tick(c);
      }
    }
  }
  now_ = std::max(now_, end);
  for (int c = 0; c < scene_.cores; ++c) account(c);
}

Time Cores::left_of_peers(int rank) const {
  Time longest = 0;
  for (int r = 0; r < scene_.ranks; ++r) {
    const Thread& peer = threads_[at(r)];
    if (r == rank || (peer.call > completed_ && peer.phase != Phase::work)) continue;
    Time left = peer.phase == Phase::work ? peer.left : scene_.work + scene_.computing;
    if (peer.state == State::running) left -= now_ - peer.since;
    if (peer.state == State::ready) left += std::max<Time>(cores_[at(peer.core)].tick - now_, 0);
    if (peer.state == State::asleep) left += peer.wakes - now_;
    longest = std::max(longest, left);
  }
  return longest;
}

}  // namespace kolo::test
