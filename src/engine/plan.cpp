#include "engine/plan.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "kernels/wire_format.hpp"
#include "schedule/lengths.hpp"

namespace kolo::engine {
namespace {

/// Bytes [begin, end) of one memory. In place, input and output are the same memory.
struct Interval {
  int memory = -1;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool meets(const Interval& other) const {
    return memory == other.memory && begin < other.end && other.begin < end;
  }
};

/// What a step or a segment touches: first what it writes, then what it reads.
struct Access {
  std::array<Interval, 3> touched;

  bool conflicts(const Access& later) const {
    for (const auto& [one, other] : kPairs) {
      if (touched[one].meets(later.touched[other])) return true;
    }
    return false;
  }

  static constexpr std::array<std::pair<std::size_t, std::size_t>, 5> kPairs{
      {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {2, 0}}};
};

/// With a wire format, every part has whole blocks, except the last one that is not empty.
schedule::ChunkLengths lengths_of(const schedule::Schedule& schedule, const schedule::CallKey& key,
                                  std::uint64_t block) {
  const std::uint32_t parts = schedule::part_count(schedule);
  if (!key.is_uneven())
    return schedule::chunk_lengths(schedule, schedule::even_parts(key.count, parts, block));
  const auto end_of_first = key.parts.begin() + parts;
  if (end_of_first == key.parts.end()) return schedule::chunk_lengths(schedule, key.parts);
  return {{key.parts.begin(), end_of_first}, {end_of_first, key.parts.end()}};
}

class Lowering {
 public:
  Lowering(const schedule::Schedule& schedule, const schedule::CallKey& key)
      : schedule_(schedule), key_(key), format_(kernels::wire_format(key.wire)) {
    const schedule::ChunkLengths lengths = lengths_of(schedule, key, format_.block);
    input_offsets_ = offsets(lengths.input);
    output_offsets_ = offsets(lengths.output);
    scratch_offsets_ = offsets(lengths.slots(schedule));
    const auto part_begin = [&](const std::vector<std::uint64_t>& all) {
      const auto rank = static_cast<std::size_t>(schedule.rank);
      return rank < all.size() ? all[rank] : 0;
    };
    // Where the smaller of the two buffers lies inside the larger one.
    const schedule::CollectiveTraits& traits = schedule::traits_of(schedule.collective);
    if (traits.output_within_input()) output_base_ = part_begin(input_offsets_);
    if (traits.input_within_output()) input_base_ = part_begin(output_offsets_);
  }

  std::shared_ptr<const Plan> run() {
    plan_ = std::make_shared<Plan>();
    plan_->scratch_bytes = scratch_offsets_.back();
    first_.reserve(schedule_.steps.size() + 1);
    for (std::uint32_t s = 0; s < schedule_.steps.size(); ++s) add_step(s);
    first_.push_back(static_cast<std::uint32_t>(plan_->steps.size()));
    order();
    plan_->input_offsets = std::move(input_offsets_);
    plan_->output_offsets = std::move(output_offsets_);
    return plan_;
  }

 private:
  std::vector<std::uint64_t> offsets(const std::vector<std::uint64_t>& parts) const {
    std::vector<std::uint64_t> result{0};
    for (const std::uint64_t part : parts) result.push_back(result.back() + part * element_bytes_);
    return result;
  }

  std::uint64_t begin_of(const schedule::ChunkRange& range) const {
    if (range.count == 0) return 0;
    switch (range.buffer) {
      case schedule::BufferName::input:
        return input_offsets_[range.begin];
      case schedule::BufferName::output:
        return output_offsets_[range.begin];
      case schedule::BufferName::scratch:
        return scratch_offsets_[range.begin];
    }
    return 0;
  }

  std::uint64_t length_of(const schedule::ChunkRange& range) const {
    const bool is_scratch = range.buffer == schedule::BufferName::scratch;
    const auto& at = (is_scratch ? range.like_buffer : range.buffer) == schedule::BufferName::input
                         ? input_offsets_
                         : output_offsets_;
    const std::uint32_t begin = is_scratch ? range.like_begin : range.begin;
    if (range.count == 0) return 0;
    const std::size_t parts = at.size() - 1;
    const std::size_t end = begin + range.count;
    return end <= parts ? at[end] - at[begin] : at[parts] - at[begin] + at[end - parts];  // around the end
  }

  /// Bytes of a range before it wraps around the end of the data, where the last block may be short.
  std::uint64_t straight_length_of(const schedule::ChunkRange& range) const {
    if (range.buffer != schedule::BufferName::scratch) return length_of(range);
    schedule::ChunkRange straight = range;
    const auto& parts = range.like_buffer == schedule::BufferName::input ? input_offsets_ : output_offsets_;
    straight.count = std::min(range.count, static_cast<std::uint32_t>(parts.size() - 1) - range.like_begin);
    return length_of(straight);
  }

  std::uint64_t wire_bytes(std::uint64_t bytes) const {
    return !key_.is_rounded() ? bytes : format_.bytes(bytes / element_bytes_);
  }

  Interval interval(schedule::BufferName buffer, std::uint64_t begin, std::uint64_t bytes,
                    bool in_place) const {
    if (buffer == schedule::BufferName::scratch) return {2, begin, begin + bytes};
    if (!in_place) return {static_cast<int>(buffer), begin, begin + bytes};
    begin += buffer == schedule::BufferName::input ? input_base_ : output_base_;
    return {0, begin, begin + bytes};
  }

  Access access_of(const PlanStep& step, std::uint64_t bytes, bool in_place) const {
    Access access;
    auto& [written, read, other] = access.touched;
    if (step.kind != schedule::StepKind::send) written = interval(step.dst_buffer, step.dst, bytes, in_place);
    if (step.kind != schedule::StepKind::recv) read = interval(step.a_buffer, step.a, bytes, in_place);
    if (step.kind == schedule::StepKind::reduce) other = interval(step.b_buffer, step.b, bytes, in_place);
    return access;
  }

  void add_step(std::uint32_t index) {
    const schedule::Step& step = schedule_.steps[index];
    first_.push_back(static_cast<std::uint32_t>(plan_->steps.size()));
    const schedule::ChunkRange& range = step.kind == schedule::StepKind::send ? step.a : step.dst;
    const std::uint64_t bytes = length_of(range);
    const std::uint64_t turn = format_.block > 1 ? straight_length_of(range) : bytes;
    const std::uint64_t block = format_.block * element_bytes_;
    const std::uint64_t segment = std::max(block, key_.segment_bytes / block * block);
    std::uint32_t* message = nullptr;
    if (step.kind == schedule::StepKind::send) message = &sent_[step.peer];
    if (step.kind == schedule::StepKind::recv || step.kind == schedule::StepKind::recv_reduce)
      message = &received_[step.peer];
    std::uint64_t at = 0;
    do {
      PlanStep out;
      out.kind = step.kind;
      out.incoming_first = step.incoming_first;
      out.completes = step.completes;
      out.peer = step.peer;
      out.step = index;
      out.bytes = std::min(segment, (at < turn ? turn : bytes) - at);
      out.wire_bytes = wire_bytes(out.bytes);
      out.dst_buffer = step.dst.buffer;
      out.a_buffer = step.a.buffer;
      out.b_buffer = step.b.buffer;
      out.dst = begin_of(step.dst) + at;
      out.a = begin_of(step.a) + at;
      out.b = begin_of(step.b) + at;
      if (message) {
        out.message = (*message)++;
        plan_->longest_message = std::max(plan_->longest_message, out.wire_bytes);
        if (out.kind == schedule::StepKind::send) plan_->sent_bytes += out.wire_bytes;
      }
      if (at == 0) {
        wholes_.push_back(access_of(out, bytes, key_.in_place));
        aliased_.push_back(access_of(out, bytes, true));
      }
      accesses_.push_back(access_of(out, out.bytes, key_.in_place));
      plan_->steps.push_back(out);
      at += out.bytes;
    } while (at < bytes);
    const auto segments = static_cast<std::uint32_t>(plan_->steps.size()) - first_.back();
    for (std::size_t i = first_.back(); i < plan_->steps.size(); ++i) plan_->steps[i].segments = segments;
  }

  void order() {
    const std::size_t count = schedule_.steps.size();
    dependents_.resize(plan_->steps.size());
    // Only pairs of steps that touch the same memory as wholes are compared segment by segment.
    std::vector<bool> related(count);
    for (std::uint32_t later = 0; later < count; ++later) {
      for (std::uint32_t earlier = 0; earlier < later; ++earlier) {
        related[earlier] = false;
        if (!wholes_[earlier].conflicts(wholes_[later])) continue;
        for (std::uint32_t i = first_[later]; i < first_[later + 1]; ++i) {
          for (const std::uint32_t j : conflicting(earlier, accesses_[i])) {
            depend(j, i);
            related[earlier] = true;
          }
        }
      }
      for (const std::uint32_t earlier : schedule_.dependencies_of(schedule_.steps[later])) {
        // Some orderings only exist because the schedule must also be right in place.
        const bool in_place_only = !key_.in_place && aliased_[earlier].conflicts(aliased_[later]);
        if (!related[earlier] && !in_place_only) depend_whole(earlier, later);
      }
    }
    for (std::size_t i = 0; i < dependents_.size(); ++i) {
      plan_->steps[i].first_dependent = static_cast<std::uint32_t>(plan_->dependents.size());
      plan_->steps[i].dependent_count = static_cast<std::uint32_t>(dependents_[i].size());
      plan_->dependents.insert(plan_->dependents.end(), dependents_[i].begin(), dependents_[i].end());
    }
  }

  /// The segments of a step that conflict with a later one. They are consecutive in memory, so each kind of
  /// conflict is with a few adjacent segments, which a binary search finds.
  const std::vector<std::uint32_t>& conflicting(std::uint32_t earlier, const Access& later) {
    found_.clear();
    const auto segments = accesses_.begin() + first_[earlier];
    const auto end = accesses_.begin() + first_[earlier + 1];
    for (const auto& pair : Access::kPairs) {
      const std::size_t one = pair.first;
      const Interval& with = later.touched[pair.second];
      auto at = std::partition_point(
          segments, end, [&](const Access& segment) { return segment.touched[one].end <= with.begin; });
      for (; at != end && at->touched[one].meets(with); ++at) {
        found_.push_back(static_cast<std::uint32_t>(at - accesses_.begin()));
      }
    }
    std::ranges::sort(found_);
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return found_;
  }

  void depend(std::uint32_t on, std::uint32_t by) {
    dependents_[on].push_back(by);
    ++plan_->steps[by].dependencies;
  }

  /// Orders every segment of `later` after all segments of `earlier`. If both have several segments, an empty
  /// step stands between them. So the number of orderings grows with the data and not with its square.
  void depend_whole(std::uint32_t earlier, std::uint32_t later) {
    const auto count = [&](std::uint32_t step) { return first_[step + 1] - first_[step]; };
    if (count(earlier) == 1 || count(later) == 1) {
      for (std::uint32_t i = first_[earlier]; i < first_[earlier + 1]; ++i) {
        for (std::uint32_t j = first_[later]; j < first_[later + 1]; ++j) depend(i, j);
      }
      return;
    }
    const auto between = static_cast<std::uint32_t>(plan_->steps.size());
    plan_->steps.emplace_back().step = later;
    dependents_.emplace_back();
    for (std::uint32_t i = first_[earlier]; i < first_[earlier + 1]; ++i) depend(i, between);
    for (std::uint32_t j = first_[later]; j < first_[later + 1]; ++j) depend(between, j);
  }

  const schedule::Schedule& schedule_;
  const schedule::CallKey& key_;
  const std::uint64_t element_bytes_ = size_of(key_.dtype);
  const kernels::WireFormat format_;
  std::vector<std::uint64_t> input_offsets_;
  std::vector<std::uint64_t> output_offsets_;
  std::uint64_t input_base_ = 0;
  std::uint64_t output_base_ = 0;
  std::vector<std::uint64_t> scratch_offsets_;  // of each slot, then the end
  std::shared_ptr<Plan> plan_;
  std::vector<std::uint32_t> first_;  // of each schedule step, in plan_->steps; one more at the end
  std::vector<std::vector<std::uint32_t>> dependents_;  // of each plan step
  std::vector<Access> accesses_;                        // of each plan step
  std::vector<std::uint32_t> found_;
  std::vector<Access> wholes_;   // of each schedule step
  std::vector<Access> aliased_;  // of each schedule step, as if it were in place
  std::map<std::int32_t, std::uint32_t> sent_;
  std::map<std::int32_t, std::uint32_t> received_;
};

}  // namespace

std::shared_ptr<const Plan> make_plan(const schedule::Schedule& schedule, const schedule::CallKey& key) {
  return Lowering(schedule, key).run();
}

}  // namespace kolo::engine
