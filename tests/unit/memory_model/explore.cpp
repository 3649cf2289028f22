#include "explore.hpp"

#include <string>
#include <unordered_map>

namespace kolo::test::memory {

/// Executions are graphs. Each is explored once, however many interleavings lead to it.
class Explorer {
 public:
  explicit Explorer(const std::function<void(World&)>& program) : program_(program) {}

  Findings explore() {
    World begin;
    program_(begin);
    left_.emplace_back(begin.values_);
    while (!left_.empty() && findings_.wrong.empty()) {
      const Execution execution = std::move(left_.back());
      left_.pop_back();
      ++findings_.executions;
      go_on(execution);
    }
    return std::move(findings_);
  }

 private:
  /// The state of the program after the execution.
  void replay(const Execution& execution, World& world) const {
    program_(world);
    for (Thread& thread : world.threads_) thread.resume(0);
    for (const Event& event : execution.events()) {
      if (event.thread != kInitially)
        world.threads_[static_cast<std::size_t>(event.thread)].resume(event.read);
    }
  }

  void go_on(const Execution& execution) {
    World world;
    replay(execution, world);
    if (!world.wrong_.empty()) return report(execution, world, world.wrong_);
    bool is_over = true;
    bool is_stuck = true;
    std::string waiting;
    const std::size_t alone = find_private_step(world);
    for (std::size_t t = 0; t < world.threads_.size(); ++t) {
      if (world.threads_[t].done()) continue;
      is_over = false;
      if (alone != kNone && t != alone) continue;
      if (step(execution, world, t)) {
        is_stuck = false;
      } else {
        waiting += (waiting.empty() ? "" : " and ") + world.names_[t];
      }
    }
    if (is_over) {
      findings_.outcomes.insert(world.seen);
    } else if (is_stuck) {
      report(execution, world, waiting + " wait without end");
    }
  }

  /// A thread whose next access is plain. Without a race, its time makes no difference to other threads. A
  /// race is found at the second of its two accesses.
  static std::size_t find_private_step(const World& world) {
    for (std::size_t t = 0; t < world.threads_.size(); ++t) {
      if (world.threads_[t].done()) continue;
      const Operation& next = world.threads_[t].next();
      if (next.kind != Kind::fence && next.order == Order::plain) return t;
    }
    return kNone;
  }

  /// Explores every outcome of the thread's next operation. Returns whether there is one.
  bool step(const Execution& execution, const World& world, std::size_t thread) {
    const Operation& next = world.threads_[thread].next();
    Event event{.thread = static_cast<int>(thread),
                .kind = next.kind,
                .order = next.order,
                .location = next.location};
    if (next.kind == Kind::fence) return append(execution, world, event, kNone);
    bool can = false;
    for (const std::size_t write : execution.writes(next.location)) {
      const int value = execution.events()[write].written;
      if (event.reads()) {
        if (next.accepts && !next.accepts(value)) continue;
        event.source = write;
        event.read = value;
      }
      if (event.writes()) event.written = next.written(event.read);
      can = append(execution, world, event, write) || can;
    }
    return can;
  }

  bool append(const Execution& execution, const World& world, const Event& event, std::size_t after) {
    Execution longer = execution;
    longer.append(event, after);
    const auto [known, is_new] = is_allowed_.try_emplace(longer.key());
    if (!is_new) return known->second;
    known->second = longer.is_allowed();
    if (!known->second) return false;
    if (longer.is_racing()) {
      report(longer, world, "there is a data race on " + world.cells_[event.location]);
    } else {
      left_.push_back(std::move(longer));
    }
    return true;
  }

  void report(const Execution& execution, const World& world, const std::string& what) {
    if (findings_.wrong.empty())
      findings_.wrong = what + ":\n" + execution.describe(world.names_, world.cells_);
  }

  const std::function<void(World&)>& program_;
  std::vector<Execution> left_;
  std::unordered_map<std::string, bool> is_allowed_;  ///< by the key of the execution
  Findings findings_;
};

Findings explore(const std::function<void(World&)>& program) {
  return Explorer(program).explore();
}

}  // namespace kolo::test::memory
