#include "pipeline/stage_gradients.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "gradients/whole_averaging.hpp"
#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/tensor.hpp"
#include "libtorch/gradient_listener.hpp"
#include "ranks/model.hpp"
#include "ranks/span.hpp"

namespace kolo::train {
namespace {

/// What no wrapper averages.
NamedTensors tensors_of_all(const std::vector<PipelineStage>& stages) {
  NamedTensors all;
  for (std::size_t chunk = 0; chunk < stages.size(); ++chunk) {
    for (NamedTensor& tensor : tensors_of(*stages[chunk].module)) {
      const auto is_same = [&](const NamedTensor& other) { return other.tensor.is_same(tensor.tensor); };
      if (std::ranges::any_of(all, is_same) || listener_of(tensor.tensor) != nullptr) continue;
      tensor.note = "of chunk " + std::to_string(chunk) + (tensor.tensor.requires_grad() ? ", trained" : "");
      all.push_back(std::move(tensor));
    }
  }
  return all;
}

/// The gradient, zero where there is none, dense and contiguous.
at::Tensor dense_gradient_of(const at::Tensor& parameter) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.defined()) gradient = at::zeros(parameter.sizes(), parameter.options().requires_grad(false));
  gradient = (gradient.is_sparse() ? gradient.to_dense() : gradient).contiguous();
  return gradient;
}

}  // namespace

StageGradients::StageGradients(const std::vector<PipelineStage>& stages, Communicator data)
    : stages_(stages), data_(std::move(data)) {
  if (!data_.valid()) return;
  NamedTensors all;
  std::string lines;
  agree(data_, "replicas of a stage", lines, [&] {
    all = tensors_of_all(stages_);
    lines = text_of_layout(all);
  });
  Replicator(all).run(data_, 0);

  std::erase_if(all, [](const NamedTensor& tensor) { return !tensor.tensor.requires_grad(); });
  if (all.empty()) return;
  std::vector<std::size_t> own(all.size());
  std::iota(own.begin(), own.end(), std::size_t{0});
  std::vector<std::unique_ptr<Averaging>> kinds;
  kinds.push_back(std::make_unique<WholeAveraging>(all, own, data_, DistributedDataParallelOptions{}));
  reducer_ = std::make_unique<Reducer>(all, std::move(kinds), data_,
                                       ReducerOptions{.owner = "PipelineParallel",
                                                      .is_replaceable = true,
                                                      .find_unused_parameters = true,
                                                      .may_rebuild = true,
                                                      .timeline = data_.timeline()});
}

void StageGradients::tie(std::vector<TiedPair> pairs, const Communicator& ends) {
  tied_ = std::move(pairs);
  ends_ = ends;
  const c10::NoGradGuard no_grad;
  for (const TiedPair& pair : tied_) {
    const bool has_first = pair.first.defined(), has_last = pair.last.defined();
    if (has_first && has_last) {
      if (pair.first.is_same(pair.last)) continue;  // autograd adds up
      pair.last.copy_(pair.first);
    } else if (has_first || has_last) {
      broadcast_async(has_first ? pair.first : pair.last, 0, ends_).wait();
    }
    if (has_first) own_.push_back(pair.first);
    if (has_last) own_.push_back(pair.last);
  }
}

void StageGradients::begin() {
  earlier_.clear();
  for (const at::Tensor& parameter : own_) {
    // A copy, as averages may write the new gradient to the memory of the old one.
    at::Tensor& gradient = parameter.mutable_grad();
    earlier_.push_back(gradient.defined() ? gradient.clone() : gradient);
    gradient = at::Tensor();
  }
  if (reducer_) reducer_->require_watched();
  all_.clear();
  of_chunks_.assign(stages_.size(), {});
  for (std::size_t chunk = 0; chunk < stages_.size(); ++chunk) {
    auto& reducers = of_chunks_[chunk];
    for (const at::Tensor& parameter : stages_[chunk].module->parameters()) {
      Reducer* const one = Reducer::listening_to(parameter);
      if (one == nullptr || std::ranges::find(reducers, one) != reducers.end()) continue;
      reducers.push_back(one);
      if (std::ranges::find(all_, one) == all_.end()) all_.push_back(one);
    }
  }
  for (Reducer* const reducer : all_) {
    reducer->require_no_error();
    reducer->set_deferred(true);
  }
}

void StageGradients::set_local(int chunk, bool is_local) {
  for (Reducer* const reducer : of_chunks_[static_cast<std::size_t>(chunk)]) reducer->set_local(is_local);
}

void StageGradients::finish() {
  for (Reducer* const reducer : all_) reducer->finish_deferred();
  release();
}

void StageGradients::release() noexcept {
  for (Reducer* const reducer : all_) {
    reducer->set_deferred(false);
    reducer->set_local(false);
  }
}

void StageGradients::end() {
  release();
  restore_tied();
}

void StageGradients::leave(const std::string& reason) {
  for (Reducer* const reducer : all_) reducer->leave(reason);
  end();
}

void StageGradients::sum_tied() {
  const c10::NoGradGuard no_grad;
  std::vector<TensorWork> works;
  for (const TiedPair& pair : tied_) {
    if (pair.first.defined() && pair.last.defined()) {
      if (pair.first.is_same(pair.last)) continue;
      const at::Tensor sum = dense_gradient_of(pair.first) + dense_gradient_of(pair.last);
      pair.first.mutable_grad() = sum;
      pair.last.mutable_grad() = sum.clone();
    } else if (pair.first.defined() || pair.last.defined()) {
      // Both weights have the gradient with the same bits, and so stay equal.
      const at::Tensor gradient = dense_gradient_of(pair.first.defined() ? pair.first : pair.last);
      works.push_back(all_reduce_async(gradient, ends_, ReduceOp::sum, {.wire = Wire::native}));
    }
  }
  wait_all(works);
  restore_tied();
}

void StageGradients::restore_tied() {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < earlier_.size(); ++i) {
    if (!earlier_[i].defined()) continue;
    at::Tensor& gradient = own_[i].mutable_grad();
    if (gradient.defined()) {
      gradient.add_(earlier_[i]);
    } else {
      gradient = earlier_[i];
    }
  }
  earlier_.clear();
}

const CommunicationStatistics& StageGradients::total() {
  return reducer_ ? reducer_->total() : none_;
}

}  // namespace kolo::train
