#include "evaluation/evaluate.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/element.hpp"
#include "kernels/wire_format.hpp"
#include "schedule/lengths.hpp"

namespace kolo::evaluation {
namespace {

/// The beginning of each part, then the end of the last one.
std::vector<std::uint64_t> begins_of(const std::vector<std::uint64_t>& parts) {
  std::vector<std::uint64_t> begins(parts.size() + 1, 0);
  std::partial_sum(parts.begin(), parts.end(), begins.begin() + 1);
  return begins;
}

/// A rank's memory.
class Memory {
 public:
  Memory(const schedule::Schedule& schedule, schedule::ChunkLengths lengths, const std::vector<float>& input)
      : lengths_(std::move(lengths)),
        input_begins_(begins_of(lengths_.input)),
        output_begins_(begins_of(lengths_.output)),
        scratch_begins_(begins_of(lengths_.slots(schedule))),
        input_(input),
        output_(output_begins_.back()),
        scratch_(scratch_begins_.back()) {}

  std::span<float> at(const schedule::ChunkRange& range) {
    if (range.count == 0) return {};
    const bool is_input = range.buffer == schedule::BufferName::input;
    const bool is_scratch = range.buffer == schedule::BufferName::scratch;
    const auto& begins = is_scratch ? scratch_begins_ : is_input ? input_begins_ : output_begins_;
    return {(is_scratch ? scratch_
             : is_input ? input_
                        : output_)
                    .data() +
                begins[range.begin],
            lengths_.of(range)};
  }

  /// The lengths of the chunks of a range.
  std::vector<std::uint64_t> chunks_of(const schedule::ChunkRange& range) const {
    const bool is_scratch = range.buffer == schedule::BufferName::scratch;
    const bool is_input = (is_scratch ? range.like_buffer : range.buffer) == schedule::BufferName::input;
    const auto& parts = is_input ? lengths_.input : lengths_.output;
    std::vector<std::uint64_t> result;
    for (std::uint32_t i = 0; i < range.count; ++i) {
      result.push_back(parts[((is_scratch ? range.like_begin : range.begin) + i) % parts.size()]);
    }
    return result;
  }

  std::vector<float>& output() { return output_; }

 private:
  schedule::ChunkLengths lengths_;
  std::vector<std::uint64_t> input_begins_, output_begins_, scratch_begins_;
  std::vector<float> input_;
  std::vector<float> output_;
  std::vector<float> scratch_;
};

/// Operations on numbers.
class Numbers {
 public:
  Numbers(const Arithmetic& arithmetic, std::size_t ranks)
      : arithmetic_(arithmetic), format_(kernels::wire_format(arithmetic.wire)), ranks_(ranks) {}

  void combine(std::span<float> to, std::span<const float> left, std::span<const float> right) const {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = left[i] + right[i];
    round_to(arithmetic_.element, to);
  }

  /// Rounds the numbers as a wire format does: chunk by chunk, because blocks do not cross chunks.
  void send(std::span<float> numbers, const std::vector<std::uint64_t>& chunks) const {
    if (arithmetic_.wire == Wire::native) return;
    std::vector<std::byte> bytes(format_.bytes(numbers.size()) + format_.block_bytes());
    std::uint64_t begin = 0;
    for (const std::uint64_t length : chunks) {
      format_.encode(bytes.data(), numbers.data() + begin, length);
      format_.decode(numbers.data() + begin, bytes.data(), length);
      begin += length;
    }
  }

  void complete(std::span<float> sums, const std::vector<std::uint64_t>& chunks) const {
    for (float& sum : sums) sum /= arithmetic_.average ? static_cast<float>(ranks_) : 1.0f;
    send(sums, chunks);
  }

 private:
  Arithmetic arithmetic_;
  kernels::WireFormat format_;
  std::size_t ranks_;
};

/// Operations on counts of roundings in place of numbers: a float holds counts up to 2^24.
class Depths {
 public:
  explicit Depths(const Arithmetic& arithmetic) : is_native_(arithmetic.wire == Wire::native) {}

  void combine(std::span<float> to, std::span<const float> left, std::span<const float> right) const {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = std::max(left[i], right[i]) + (is_native_ ? 1.0f : 0.0f);
    }
  }
  void send(std::span<float> depths, const std::vector<std::uint64_t>&) const {
    for (float& depth : depths) depth += is_native_ ? 0.0f : 1.0f;
  }
  void complete(std::span<float> depths, const std::vector<std::uint64_t>& chunks) const {
    send(depths, chunks);
  }

 private:
  bool is_native_;
};

/// `Values` defines the effect of combining, sending and completing.
template <typename Values>
std::vector<std::vector<float>> run(std::span<const schedule::Schedule> schedules,
                                    const schedule::MessageGraph& graph,
                                    const std::vector<std::vector<float>>& inputs, std::uint64_t block,
                                    const Values& values) {
  const std::vector<std::uint64_t> parts =
      schedule::even_parts(inputs[0].size(), schedule::part_count(schedules[0]), block);
  std::vector<Memory> ranks;
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    ranks.emplace_back(schedules[r], schedule::chunk_lengths(schedules[r], parts), inputs[r]);
  }
  const auto complete = [&](Memory& rank, const schedule::Step& step) {
    if (step.completes) values.complete(rank.at(step.dst), rank.chunks_of(step.dst));
  };
  std::vector<float> incoming;
  for (const schedule::MessageGraph::Event& event : graph.events()) {
    const schedule::Step& step = schedules[event.step.rank].steps[event.step.step];
    Memory& rank = ranks[event.step.rank];
    if (step.kind == schedule::StepKind::copy) std::ranges::copy(rank.at(step.a), rank.at(step.dst).begin());
    if (step.kind == schedule::StepKind::reduce) {
      values.combine(rank.at(step.dst), rank.at(step.a), rank.at(step.b));
      complete(rank, step);
    }
    if (!event.is_message) continue;
    const schedule::Step& meets = schedules[event.receiver.rank].steps[event.receiver.step];
    Memory& receiver = ranks[event.receiver.rank];
    const std::span<const float> sent = rank.at(step.a);
    incoming.assign(sent.begin(), sent.end());
    values.send(incoming, rank.chunks_of(step.a));
    if (meets.kind == schedule::StepKind::recv) {
      std::ranges::copy(incoming, receiver.at(meets.dst).begin());
    } else if (meets.incoming_first) {
      values.combine(receiver.at(meets.dst), incoming, receiver.at(meets.a));
    } else {
      values.combine(receiver.at(meets.dst), receiver.at(meets.a), incoming);
    }
    complete(receiver, meets);
  }
  std::vector<std::vector<float>> outputs;
  for (Memory& rank : ranks) outputs.push_back(std::move(rank.output()));
  return outputs;
}

}  // namespace

std::vector<std::vector<float>> evaluate(std::span<const schedule::Schedule> schedules,
                                         const schedule::MessageGraph& graph,
                                         const std::vector<std::vector<float>>& inputs,
                                         const Arithmetic& arithmetic) {
  return run(schedules, graph, inputs, kernels::wire_format(arithmetic.wire).block,
             Numbers(arithmetic, schedules.size()));
}

std::vector<std::vector<float>> evaluate(std::span<const schedule::Schedule> schedules,
                                         const std::vector<std::vector<float>>& inputs,
                                         const Arithmetic& arithmetic) {
  return evaluate(schedules, schedule::MessageGraph::build(schedules).value(), inputs, arithmetic);
}

std::vector<int> rounding_depths(std::span<const schedule::Schedule> schedules,
                                 const schedule::MessageGraph& graph, std::uint64_t count,
                                 const Arithmetic& arithmetic) {
  const std::vector<std::vector<float>> inputs(schedules.size(), std::vector<float>(count));
  const auto depths =
      run(schedules, graph, inputs, kernels::wire_format(arithmetic.wire).block, Depths(arithmetic));
  // The minimum over ranks is that of the rank that completes a chunk: other ranks get its result, already
  // rounded.
  std::vector<int> result(depths[0].begin(), depths[0].end());
  for (const std::vector<float>& of_rank : depths) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = std::min(result[i], static_cast<int>(of_rank[i]));
    }
  }
  return result;
}

}  // namespace kolo::evaluation
