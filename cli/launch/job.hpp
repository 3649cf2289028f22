// Job: one run of a program, from the first process to the last wait.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "kolo/store.hpp"
#include "launch/host_child.hpp"
#include "launch/host_list.hpp"
#include "launch/job_processes.hpp"
#include "launch/launcher.hpp"
#include "launch/roster.hpp"
#include "launch/signals.hpp"
#include "launch/terminals.hpp"

namespace kolo::cli {

/// Without a sign of life for so long, a part takes its launcher for gone.
constexpr auto kSilence = std::chrono::seconds(30);
/// Time in which the other ranks can report a failed one, before SIGTERM stops those that still run.
constexpr auto kReportTime = std::chrono::seconds(1);

/// The same loop serves the launcher of local ranks, the launcher of a job over hosts, whose children are
/// ssh, and the part of such a job at the other end of each ssh.
class Job {
 public:
  explicit Job(const LaunchOptions& options);
  LaunchOutcome run();

 private:
  bool is_part() const { return options_.job_size > 0; }
  Terminals watched_terminals() const;
  void start_ranks();
  void start_host(HostSlots where, bool is_newcomer);

  int running() const;
  void signal_children(int signal, bool groups);
  void resize(const Terminals& terminals);
  void wait_for_events();
  void handle_signal(int signal);
  void reap();
  void judge();
  bool is_over() const { return stopping_ || stop_at_; }
  void stop_ranks(int signal);
  void kill_children();
  void lose_output(int error);
  bool finished();
  bool clean_up(bool kill);

  void serve_hosts();

  void read_launcher();
  void handle_record(const Record& record);
  void begin_part(const std::string& directory);
  void abandon();

  bool is_remote() const { return !options_.remote.hosts.empty(); }
  bool is_elastic() const { return options_.elastic.is_set(); }
  void start_rank(int number, bool is_newcomer);
  void judge_roster();
  void serve_roster();
  void start_again(int number);
  void hear_of_lost_host(const RankExit& exit);
  void serve_host_list();

  const LaunchOptions options_;
  const int size_;                        ///< of the whole job
  const std::chrono::nanoseconds grace_;  ///< between SIGTERM and SIGKILL; for ssh
  Signals signals_;
  Console console_;
  Terminals terminals_;  ///< for the ranks
  std::unique_ptr<TcpStoreServer> store_;
  std::optional<Roster> roster_;           ///< of an elastic job
  std::optional<ReservedPort> port_;       ///< MASTER_PORT, on the first host
  std::optional<JobProcesses> processes_;  ///< of local ranks
  std::vector<std::string> command_;
  HostList host_list_;
  std::vector<HostSlots> listed_;                  ///< hosts that there are
  std::map<std::string, Restarts> host_restarts_;  ///< of lost hosts, by login
  std::vector<std::string> variables_;             ///< for the ranks: "NAME=value"
  std::vector<RankExit> exits_;                    ///< not judged yet
  std::vector<std::unique_ptr<Child>> children_;
  std::vector<HostChild*> hosts_;  ///< the same, if they are hosts
  int next_rank_ = 0;              ///< of the next host
  LaunchOutcome outcome_;
  int weight_ = 0;                      ///< of the failure that determines the outcome
  int succeeded_ = 0;                   ///< ranks
  RankExit last_failure_{0, 1, 0, ""};  ///< of an elastic job
  int interrupts_ = 0;                  ///< SIGINTs received
  bool stopping_ = false;
  bool leftovers_told_ = false;
  std::optional<Deadline> stop_at_;  ///< when the time to report a failure ends
  std::optional<Deadline> kill_at_;  ///< when the grace period after SIGTERM ends
  std::optional<Deadline> give_up_;  ///< when to stop waiting for processes that do not end
  bool gave_up_ = false;

  bool has_job_ = false;          ///< the hosts have it, or this part has it
  bool may_finish_ = !is_part();  ///< all ranks of the job have ended, unless ranks of this process run
  Deadline ping_at_ = Deadline::after({});
  Deadline silence_ = Deadline::after(kSilence);
  RecordReader launcher_;      ///< what the launcher of this part says
  bool is_paused_ = false;     ///< it is stopped (Ctrl-Z), so its silence is expected
  bool is_abandoned_ = false;  ///< it is gone
  bool is_done_ = false;       ///< it knows that this part has ended
};

}  // namespace kolo::cli
