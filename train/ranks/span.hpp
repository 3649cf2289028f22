// Span: what training does meanwhile, on the timeline of its communicator.
#pragma once

#include <string>
#include <string_view>

#include "kolo/communicator.hpp"
#include "kolo/timeline.hpp"

namespace kolo::train {

/// From its construction to its destruction, on the track "compute", where callers wait or compute. Records
/// nothing if the communicator has no timeline.
class Span {
 public:
  explicit Span(const Communicator& communicator, std::string_view name)
      : timeline_(communicator.timeline()) {
    if (!timeline_) return;
    name_ = name;
    begin_ = std::chrono::steady_clock::now();
  }
  /// The name with a number: "forward 3".
  Span(const Communicator& communicator, std::string_view name, int number) : Span(communicator, name) {
    if (timeline_) name_ += ' ' + std::to_string(number);
  }
  ~Span() {
    if (timeline_) timeline_->span(name_, "compute", begin_, std::chrono::steady_clock::now());
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  const std::shared_ptr<Timeline> timeline_;
  std::string name_;
  Timeline::TimePoint begin_{};
};

}  // namespace kolo::train
