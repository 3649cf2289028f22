// Reducer: what a step cost.
#include <algorithm>
#include <utility>

#include "gradients/reducer.hpp"
#include "kolo/timeline.hpp"

namespace kolo::train {

std::span<const SparseTables::Table> Reducer::tables() const {
  if (!tables_) return {};
  return tables_->tables();
}

void Reducer::account(Bucket::Clock::time_point waiting, Bucket::Clock::time_point done) {
  last_step_ = {};
  last_step_.steps = 1;
  last_step_.exposed = done - waiting;
  using Span = std::pair<Bucket::Clock::time_point, Bucket::Clock::time_point>;
  std::vector<Span> spans;
  for (const Bucket& bucket : buckets_) {
    ++last_step_.all_reduces;
    last_step_.bytes += bucket.bytes();
    spans.emplace_back(bucket.started(), bucket.ended());
  }
  for (const SparseTables::Table& table : tables()) {
    ++last_step_.sparse_sums;
    last_step_.bytes += table.bytes;
    spans.emplace_back(table.started, table.job.ended);
  }
  // They overlap each other: count each moment before `waiting` once.
  std::ranges::sort(spans);
  Bucket::Clock::time_point counted{};
  for (const auto& [started, ended] : spans) {
    const auto begin = std::max(started, counted);
    const auto end = std::min(ended, waiting);
    if (begin < end) {
      last_step_.hidden += end - begin;
      counted = end;
    }
  }
  total_ += last_step_;
  if (!options_.timeline) return;
  options_.timeline->span("wait", "compute", waiting, done);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    options_.timeline->span("bucket " + std::to_string(b), "buckets", buckets_[b].started(),
                            buckets_[b].ended(), "\"bytes\":" + std::to_string(buckets_[b].bytes()));
  }
  for (const SparseTables::Table& table : tables()) {
    options_.timeline->span("rows of " + table.name, "tables", table.started, table.job.ended,
                            "\"bytes\":" + std::to_string(table.bytes));
  }
}

const CommunicationStatistics& Reducer::last_step() {
  if (!forward_) return last_step_;
  if (const auto step = forward_->take_statistics()) total_ += last_step_ = *step;
  return last_step_;
}

const CommunicationStatistics& Reducer::total() {
  last_step();
  return total_;
}

}  // namespace kolo::train
