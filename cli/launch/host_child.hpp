// The ranks of a job on another host: an ssh with `kolo run --part` at its other end. See records.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/child.hpp"
#include "launch/hosts.hpp"
#include "launch/records.hpp"

namespace kolo::cli {

class HostChild final : public Child {
 public:
  HostChild(HostSlots where, int first_rank, Console& console, std::vector<RankExit>& exits);

  /// `ssh` is a command with options, separated by spaces; `kolo` and `arguments` start the part there.
  void start(const std::string& ssh, const std::string& kolo, const std::string& arguments,
             const sigset_t& signals);
  /// A free port of the host; 0: the part has not answered yet.
  int port() const { return port_; }
  /// `variables` as "NAME=value".
  void send_job(const std::vector<std::string>& variables, const std::vector<std::string>& command,
                const Terminals& terminals);
  /// Keeps the connection alive. Parts get this also before their job, because other hosts may be slow to
  /// answer.
  void ping();
  bool has_job() const { return has_job_; }
  bool has(int rank) const { return rank >= first_rank_ && rank < first_rank_ + ranks_; }
  int first_rank() const { return first_rank_; }
  const HostSlots& where() const { return where_; }
  /// After the end of a rank.
  void start_again(int rank);
  /// All ranks of the job have ended, or those of this host shall not be started again: the part ends what
  /// they left behind.
  void finish_part();
  /// Ends the ranks politely, and then the part.
  void leave();
  bool is_leaving() const { return is_leaving_; }
  /// Tells the part when the console can take output, or not.
  void tell_ready();
  std::string name() const { return where_.name(); }
  /// Before the job is sent, a signal that stops ranks ends ssh; SIGKILL always does.
  void signal(int signal, bool groups) override;
  void resize(const Terminals& terminals) override;

 private:
  /// A host is always read. Otherwise the end of a rank would wait behind output for a reader that pauses.
  /// The bytes in flight when the console is full are bounded by the part's queue and some pipes.
  OutputReady ready() const override { return {}; }
  void take(Stream stream, std::string_view bytes) override;
  void on_end(pid_t pid, int wait_status) override;
  Status take_records();
  void handle_record(const Record& record);
  void tell(RecordKind kind, int number = 0, std::string_view text = {});
  void lose(const std::string& why);

  const HostSlots where_;
  std::string ssh_;
  RecordReader said_;
  LineCutter errors_;  ///< what ssh and the host's shell print
  int port_ = 0;
  bool has_job_ = false;
  bool is_finishing_ = false;
  bool is_leaving_ = false;
  bool is_done_ = false;  ///< the part has nothing more to do
  bool is_lost_ = false;  ///< or it was stopped before it had a job
  OutputReady told_ready_;
};

}  // namespace kolo::cli
