// A job whose steps are recorded, and the files that it leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kolo/kolo.hpp"

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

}  // namespace support
