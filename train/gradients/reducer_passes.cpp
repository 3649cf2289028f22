// Reducer: unused parameters, backward passes that are all alike, ranks without data, and what a step cost.
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "gradients/reducer.hpp"
#include "kolo/timeline.hpp"

namespace kolo::train {
namespace {

/// Walks the autograd graph from the outputs' `edges` and returns, for each accumulator, whether it was met.
std::vector<bool> reachable(std::span<const torch::autograd::Edge> edges,
                            std::span<const NodePtr> accumulators) {
  std::unordered_set<torch::autograd::Node*> met;
  std::vector<torch::autograd::Node*> open;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node != nullptr && met.insert(node).second) open.push_back(node);
  };
  for (const torch::autograd::Edge& edge : edges) visit(edge.function.get());
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  std::vector<bool> result;
  for (const auto& accumulator : accumulators) result.push_back(met.contains(accumulator.get()));
  return result;
}

}  // namespace

void Reducer::expect_backward_from(std::span<const at::Tensor> outputs, bool is_all) {
  if (!options_.find_unused_parameters) return;
  std::vector<torch::autograd::Edge> edges;
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.requires_grad())
      edges.push_back(torch::autograd::impl::gradient_edge(output));
  }
  std::vector<NodePtr> accumulators;
  for (const Parameter& state : states_) accumulators.push_back(state.accumulator);
  std::vector<bool> reached(states_.size(), true);
  if (is_all && !edges.empty()) reached = reachable(edges, accumulators);
  // One backward may come from several forwards.
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states_[i].expected = reached[i] || (has_expectation_ && states_[i].expected);
  }
  has_expectation_ = true;
}

void Reducer::begin_static_pass() {
  graph_->begin();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!graph_->is_reached(i)) mark_ready(i, false);
  }
}

void Reducer::end_static_pass() {
  const c10::NoGradGuard no_grad;
  guard([&] {
    StaticGraph::Flags used;
    for (const Parameter& state : states_) used.push_back(state.used ? 1 : 0);
    for (const std::size_t i : graph_->end(used))
      mark_ready(i, states_[i].used && states_[i].tensor.grad().defined());
  });
}

bool Reducer::follow(const std::function<void()>& empty_pass) {
  guard([&] { share_ = join_->wait(); });
  if (share_.is_over) return false;
  has_share_ = true;
  if (empty_pass) {
    empty_pass();
    if (!has_share_) return true;
    leave("made an empty_pass without a backward() that averages");
    std::rethrow_exception(error_);
  }
  const c10::NoGradGuard no_grad;
  guard([&] {
    begin();
    for (std::size_t i = 0; i < states_.size(); ++i) {
      Parameter& state = states_[i];
      const bool is_used =
          !graph_ || graph_->used_anywhere() == nullptr || (*graph_->used_anywhere())[i] != 0;
      if (!is_used) {
        mark_ready(i, false);
        continue;
      }
      state.tensor.mutable_grad() = state.kind->zero(state.bucket, state.slot);
      state.used = !options_.find_unused_parameters && !graph_;
      if (!state.ready) mark_ready(i, state.used);
    }
  });
  finish();
  return true;
}

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
