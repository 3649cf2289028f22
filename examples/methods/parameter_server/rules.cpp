#include "methods/parameter_server/rules.hpp"

#include <algorithm>

namespace kolo::methods {

UpdateRules::UpdateRules(const ParameterServerOptions& options, std::size_t workers)
    : rule_(options.rule),
      staleness_(static_cast<std::uint64_t>(options.staleness)),
      late_(options.late),
      workers_(workers) {}

UpdateRules::Judgement UpdateRules::judge(const Request& push, std::uint64_t version) const {
  // A server that has started again from a checkpoint may have fewer updates than its workers saw.
  const std::uint64_t staleness = version - std::min(push.version, version);
  if (push.sequence <= workers_[push.worker].sequence) return {PushOutcome::repeated, staleness, 0};
  if (rule_ != ServerRule::versions || staleness <= staleness_) return {PushOutcome::applied, staleness, 1};
  if (late_ == LatePush::drop) return {PushOutcome::dropped, staleness, 0};
  return {PushOutcome::divided, staleness, 1.0 / static_cast<double>(staleness)};
}

bool UpdateRules::is_round_complete() const {
  return std::ranges::any_of(workers_, &WorkerRecord::waits) &&
         std::ranges::all_of(workers_,
                             [](const WorkerRecord& worker) { return worker.waits || !worker.is_awaited(); });
}

bool UpdateRules::may_go_on(std::uint64_t worker) const {
  if (rule_ != ServerRule::clocks) return true;
  return std::ranges::all_of(workers_, [&](const WorkerRecord& other) {
    return !other.is_awaited() || other.sequence + staleness_ >= workers_[worker].sequence;
  });
}

bool UpdateRules::is_finished() const {
  return awaited() == 0;
}

bool UpdateRules::is_over() const {
  return std::ranges::all_of(workers_, &WorkerRecord::is_gone);
}

std::size_t UpdateRules::awaited() const {
  return static_cast<std::size_t>(std::ranges::count_if(workers_, &WorkerRecord::is_awaited));
}

std::uint64_t UpdateRules::pushes() const {
  std::uint64_t sum = 0;
  for (const WorkerRecord& worker : workers_) sum += worker.sequence;
  return sum;
}

}  // namespace kolo::methods
