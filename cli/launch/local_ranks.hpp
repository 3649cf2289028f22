// The ranks that run on this host, as children of this process.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "launch/job_processes.hpp"
#include "launch/rank_process.hpp"
#include "launch/ranks.hpp"

namespace kolo::cli {

/// The part of a job that one host runs.
struct LocalPart {
  int first_rank = 0;
  int ranks = 1;
  int size = 1;                                                  ///< of the whole job
  std::vector<std::string> command;                              ///< program and arguments
  std::vector<std::pair<std::string, std::string>> environment;  ///< on top of this process's own
};

/// Orphans of the job become children of this process (subreaper), so they can be found and waited for.
class Adoption {
 public:
  Adoption();
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;
  ~Adoption();

 private:
  int before_ = 0;
};

/// Treats every child of this process as one of the job. If this process is killed, a keeper process ends the
/// ranks.
class LocalRanks final : public Ranks {
 public:
  /// `signals`: the signals that are blocked when the program starts. Throws if the system has no more
  /// processes.
  LocalRanks(LocalPart part, const sigset_t& signals, OutputTaker take);

  void start() override;
  int running() const override;
  void signal(int signal, bool groups) override;
  void watch(std::vector<pollfd>& entries, Room room) override;
  void hear(std::span<const pollfd> entries) override;
  void reap() override;
  std::vector<Ending> take_endings() override { return std::exchange(endings_, {}); }
  bool finish(bool kill, Room room) override;
  std::string leftovers() const override;

 private:
  struct Rank {
    pid_t pid = -1;
    bool running = false;
    UniqueFd out;
    UniqueFd err;
  };

  std::vector<std::string> environment_for(int rank) const;
  std::vector<pid_t> left_behind() const;
  /// False if there is nothing to read now.
  bool read(std::size_t index, Stream stream);
  void tell_end(std::size_t index, int status);

  const LocalPart part_;
  const sigset_t signals_;
  const OutputTaker take_;
  const std::string mark_;  ///< in the environment of the ranks and of all processes that they start
  Adoption adoption_;
  Keeper keeper_;
  Room room_;
  std::vector<Rank> ranks_;
  std::vector<Ending> endings_;
  bool leftovers_told_ = false;
};

}  // namespace kolo::cli
