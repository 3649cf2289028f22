// A job whose steps are recorded, and the files that it leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kolo/kolo.hpp"
#include "support/on_all_ranks.hpp"

namespace support {

struct Timed {
  /// Collective.
  Timed();

  /// Collective: the timeline gathers every rank's spans. Rank 0 writes the picture, under this name,
  /// metrics.json and timeline.json into the folder, and says so. Does nothing where `folder` is empty.
  void write_results(const std::string& folder, const std::string& picture,
                     const std::function<std::string()>& draw, const std::function<std::string()>& metrics);

  /// Rank 0 says that a signal has ended the run; returns the exit code.
  int interrupted(int signal, std::int64_t steps) const;

  /// Paused at first: the trainer chooses the steps that are worth a look.
  std::shared_ptr<kolo::Timeline> timeline;
  kolo::Communicator communicator;
};

/// Collective: begins the job, and returns what `load` returns. An elastic rank loads first, so that the
/// group does not wait for a newcomer to do so; else all ranks throw what `load` throws on any of them.
template <typename Load>
auto begin(std::optional<Timed>& job, bool is_elastic, const Load& load) {
  if (!is_elastic) {
    job.emplace();
    return on_all_ranks(job->communicator, load);
  }
  auto loaded = load();
  job.emplace();
  return loaded;
}

}  // namespace support
