// The processes of an elastic job: which of them are in the group, which are started again and when, and
// whether the job can go on.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "kolo/store.hpp"
#include "launch/child.hpp"

namespace kolo::cli {

struct ElasticOptions {
  int least = 0;  ///< 0: the job is not elastic
  int most = 0;
  int restarts = 10;  ///< of one process or host, within Restarts::kWindow

  bool is_set() const { return least > 0; }
};

/// When something is started again that has ended: after a time that doubles, and not too often.
class Restarts {
 public:
  static constexpr auto kWindow = std::chrono::minutes(10);
  /// Returns the time to wait, after which is_due(); nullopt: there were `limit` restarts within the window.
  std::optional<std::chrono::nanoseconds> next(Clock::time_point now, int limit);
  int count() const { return static_cast<int>(times_.size()); }
  const std::optional<Deadline>& again() const { return again_; }
  bool is_due() const { return again_ && again_->passed(); }
  /// It was started, or shall not be.
  void cancel() { again_.reset(); }

 private:
  std::vector<Clock::time_point> times_;
  std::optional<Deadline> again_;
};

/// Used by one thread. Processes have numbers, which are never given to another one: RANK in their
/// environment. A process that is started again keeps its number.
class Roster {
 public:
  /// `say` gets lines for the user. `store`: as the processes see it.
  Roster(const ElasticOptions& options, std::shared_ptr<Store> store,
         std::function<void(const std::string&)> say)
      : options_(options), store_(std::move(store)), say_(std::move(say)) {}

  /// A process runs. The ones of the beginning are told apart from newcomers.
  void start(int number, bool is_newcomer);
  /// From now on its end is no failure, and it is not started again.
  void let_go(int number);
  void take_end(const RankExit& exit);
  /// Looks now and then which processes have come into the group.
  void look();
  /// The processes whose time to start again has come: then start() them.
  std::vector<int> due();
  /// When look() or due() has to be called next; nullopt: after the next end.
  std::optional<Deadline> next() const;

  /// Before that, each failure ends the job.
  bool has_met() const { return has_met_; }
  /// A process has ended well, so no other is started again.
  bool is_done() const { return is_done_; }
  /// What still runs then are newcomers that no group will take any more.
  bool only_newcomers_wait() const;
  /// Running processes that are in the group, once it has met. Each process of the beginning is: they only
  /// meet all together, but may say so one after another.
  int members() const;
  /// Processes that run or will be started again.
  int present() const;
  /// Why the job cannot go on; empty: it can.
  std::string why_over() const;

 private:
  struct Process {
    bool is_newcomer = false;
    bool is_running = true;
    bool is_in = false;  ///< has been in the group since its last start
    bool is_let_go = false;
    Restarts restarts = {};
  };
  void say(const std::string& text) const;
  std::string what_follows(Process& process, const RankExit& exit);

  const ElasticOptions options_;
  const std::shared_ptr<Store> store_;
  const std::function<void(const std::string&)> say_;
  std::map<int, Process> processes_;
  Deadline look_at_ = Deadline::after({});
  bool has_met_ = false;
  bool is_done_ = false;
};

}  // namespace kolo::cli
