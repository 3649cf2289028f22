#include "pipeline/stage_averages.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "gradients/whole_averaging.hpp"
#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "libtorch/gradient_listener.hpp"
#include "ranks/model.hpp"

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

}  // namespace

StageAverages::StageAverages(const std::vector<PipelineStage>& stages, Communicator data)
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

void StageAverages::begin() {
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

void StageAverages::set_local(int chunk, bool is_local) {
  for (Reducer* const reducer : of_chunks_[static_cast<std::size_t>(chunk)]) reducer->set_local(is_local);
}

void StageAverages::finish() {
  for (Reducer* const reducer : all_) reducer->finish_deferred();
  end();
}

void StageAverages::end() noexcept {
  for (Reducer* const reducer : all_) {
    reducer->set_deferred(false);
    reducer->set_local(false);
  }
}

void StageAverages::leave(const std::string& reason) noexcept {
  for (Reducer* const reducer : all_) reducer->leave(reason);
  end();
}

const CommunicationStatistics& StageAverages::total() {
  return reducer_ ? reducer_->total() : none_;
}

}  // namespace kolo::train
