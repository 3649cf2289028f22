// TimelineRecorder: records what an engine does as spans of a timeline.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kolo/timeline.hpp"
#include "observe/observer.hpp"

namespace kolo::observe {

/// Where the timeline goes at the end.
struct TimelineFile {
  std::string folder;  ///< empty: nowhere
  int rank = 0;
  std::string host;
  std::string group;  ///< the name of the links: the same on all ranks
};

class TimelineRecorder final : public Observer {
 public:
  TimelineRecorder(std::shared_ptr<Timeline> timeline, TimelineFile file)
      : timeline_(std::move(timeline)), file_(std::move(file)) {}
  /// Writes the file; warns if it cannot.
  ~TimelineRecorder() override;

  bool needs_times() const override { return true; }
  void ended(const ObservedCall& call, std::uint64_t sent, TimePoint begin, TimePoint end) override;
  void transferred(const ObservedCall& call, bool sent, int peer, std::uint64_t bytes,
                   TimePoint posted) override;
  void waited(const std::vector<int>& peers, TimePoint begin, TimePoint end) override;

 private:
  struct Wait {
    std::vector<int> peers;  // empty: there is no wait
    TimePoint begin{}, end{};
  };

  void record_wait();

  const std::shared_ptr<Timeline> timeline_;
  const TimelineFile file_;
  Wait wait_;                                   // the current one
  std::vector<std::array<TimePoint, 2>> last_;  // by peer, to and from: end of the last span
};

}  // namespace kolo::observe
