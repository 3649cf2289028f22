#include "plan/training/pipeline_play.hpp"

#include <algorithm>
#include <cstddef>

namespace kolo::plan {
namespace {

constexpr double kNotYet = -1;

class PipelinePlay {
 public:
  PipelinePlay(const std::vector<StageTime>& stages, int micro_batches)
      : times_(stages), micro_batches_(static_cast<std::size_t>(micro_batches)), stages_(stages.size()) {
    for (Stage& stage : stages_) {
      // The first stage's input and the last stage's loss are there.
      stage.input.assign(micro_batches_, &stage == &stages_.front() ? 0 : kNotYet);
      stage.gradient.assign(micro_batches_, &stage == &stages_.back() ? 0 : kNotYet);
    }
  }

  PipelineEnd run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t i = 0; i < stages_.size(); ++i) {
        while (advance(i)) moves = true;
      }
    }
    PipelineEnd end;
    for (const Stage& stage : stages_) end.last_backward.push_back(stage.free);
    return end;
  }

 private:
  struct Stage {
    std::vector<double> input, gradient;  ///< since when each micro-batch's is there
    std::size_t forwards = 0, backwards = 0;
    double free = 0;       ///< since when it has nothing to do
    double next_free = 0;  ///< its way to the next stage, and to the one before
    double previous_free = 0;
  };

  /// Whether the stage's next work could be done.
  bool advance(std::size_t i) {
    Stage& stage = stages_[i];
    const std::size_t warm_up = std::min(stages_.size() - 1 - i, micro_batches_);
    const bool is_forward = stage.forwards < micro_batches_ && stage.forwards <= stage.backwards + warm_up;
    if (is_forward) return forward(i);
    return stage.backwards < micro_batches_ && backward(i);
  }

  bool forward(std::size_t i) {
    Stage& stage = stages_[i];
    const double ready = stage.input[stage.forwards];
    if (ready == kNotYet) return false;
    stage.free = std::max(stage.free, ready) + times_[i].forward;
    if (i + 1 < stages_.size()) {
      stage.next_free = std::max(stage.next_free, stage.free) + times_[i].to_next;
      stages_[i + 1].input[stage.forwards] = stage.next_free;
    }
    ++stage.forwards;
    return true;
  }

  bool backward(std::size_t i) {
    Stage& stage = stages_[i];
    const double ready = stage.gradient[stage.backwards];
    if (ready == kNotYet) return false;
    stage.free = std::max(stage.free, ready) + times_[i].backward;
    if (i > 0) {
      stage.previous_free = std::max(stage.previous_free, stage.free) + times_[i].to_previous;
      stages_[i - 1].gradient[stage.backwards] = stage.previous_free;
    }
    ++stage.backwards;
    return true;
  }

  const std::vector<StageTime>& times_;
  const std::size_t micro_batches_;
  std::vector<Stage> stages_;
};

}  // namespace

PipelineEnd play_pipeline(const std::vector<StageTime>& stages, int micro_batches) {
  return PipelinePlay(stages, micro_batches).run();
}

}  // namespace kolo::plan
