// When a push is applied and when its worker is answered: what a server knows of its workers, without I/O.
#pragma once

#include <cstdint>
#include <vector>

#include "methods/parameter_server.hpp"
#include "methods/parameter_server/request.hpp"

namespace kolo::methods {

enum class WorkerStatus : std::uint8_t {
  expected,  ///< has not come yet
  live,
  finished,  ///< pushes no more
  left,      ///< said goodbye
  lost,
};

struct WorkerRecord {
  WorkerStatus status = WorkerStatus::expected;
  std::uint64_t sequence = 0;  ///< of its last push that was applied or dropped: its clock
  bool waits = false;          ///< its push of a round is there (ServerRule::synchronous)

  /// Whether others wait for its pushes.
  bool is_awaited() const { return status == WorkerStatus::expected || status == WorkerStatus::live; }
  bool is_gone() const { return status == WorkerStatus::left || status == WorkerStatus::lost; }
};

class UpdateRules {
 public:
  UpdateRules(const ParameterServerOptions& options, std::size_t workers);

  struct Judgement {
    PushOutcome outcome = PushOutcome::applied;
    std::uint64_t staleness = 0;
    double factor = 1;  ///< that the push counts by; 0: not at all
  };
  /// Of a push, which is not noted yet.
  Judgement judge(const Request& push, std::uint64_t version) const;

  /// Whether all pushes of a round are there.
  bool is_round_complete() const;
  /// Whether a worker's parameters are fresh enough for it to go on (ServerRule::clocks).
  bool may_go_on(std::uint64_t worker) const;
  /// Whether no worker pushes any more.
  bool is_finished() const;
  /// Whether all workers have left or are lost.
  bool is_over() const;
  /// Number of workers that push on.
  std::size_t awaited() const;
  /// All workers' pushes so far.
  std::uint64_t pushes() const;

  std::vector<WorkerRecord>& workers() { return workers_; }
  const std::vector<WorkerRecord>& workers() const { return workers_; }

 private:
  ServerRule rule_;
  std::uint64_t staleness_;
  LatePush late_;
  std::vector<WorkerRecord> workers_;
};

}  // namespace kolo::methods
