// Reducer: what a step cost.
#include <algorithm>
#include <utility>

#include "gradients/reducer.hpp"
#include "kolo/timeline.hpp"

namespace kolo::train {

void Reducer::account(Averaging::Clock::time_point waiting, Averaging::Clock::time_point done) {
  last_step_ = {};
  last_step_.steps = 1;
  last_step_.exposed = done - waiting;
  if (options_.timeline) options_.timeline->span("wait", "compute", waiting, done);
  std::vector<Averaging::Span> spans;
  for (const auto& kind : kinds_) {
    for (std::size_t b = 0; b < kind->size(); ++b) {
      const Averaging::Span& span = spans.emplace_back(kind->span(b));
      last_step_.bytes += span.bytes;
      ++kind->count_of(last_step_);
      if (options_.timeline) {
        options_.timeline->span(kind->name_of(b), kind->row(), span.started, span.ended,
                                "\"bytes\":" + std::to_string(span.bytes));
      }
    }
  }
  // They overlap each other: count each moment before `waiting` once.
  std::ranges::sort(spans, {}, &Averaging::Span::started);
  Averaging::Clock::time_point counted{};
  for (const auto& [started, ended, bytes] : spans) {
    const auto begin = std::max(started, counted);
    const auto end = std::min(ended, waiting);
    if (begin < end) {
      last_step_.hidden += end - begin;
      counted = end;
    }
  }
  for (const auto& kind : kinds_) {
    const auto waited = kind->take_waited();
    last_step_.exposed += waited;
    last_step_.hidden = std::max(last_step_.hidden - waited, std::chrono::nanoseconds(0));
  }
  total_ += last_step_;
}

const CommunicationStatistics& Reducer::last_step() {
  for (const auto& kind : kinds_) {
    if (const auto step = kind->take_statistics()) total_ += last_step_ = *step;
  }
  return last_step_;
}

const CommunicationStatistics& Reducer::total() {
  last_step();
  return total_;
}

}  // namespace kolo::train
