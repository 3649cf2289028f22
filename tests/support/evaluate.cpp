#include "support/evaluate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "kernels/wire_format.hpp"
#include "schedule/lengths.hpp"
#include "schedule/message_graph.hpp"

namespace kolo::test {
namespace {

class Rank {
 public:
  Rank(const Schedule& schedule, ChunkLengths lengths, const std::vector<float>& input)
      : lengths_(std::move(lengths)), input_(input) {
    output_.resize(std::accumulate(lengths_.output.begin(), lengths_.output.end(), std::uint64_t{0}));
    slots_ = lengths_.slots(schedule);
    scratch_.resize(std::accumulate(slots_.begin(), slots_.end(), std::uint64_t{0}));
  }

  std::span<float> at(const ChunkRange& range) {
    if (range.count == 0) return {};
    const bool is_input = range.buffer == BufferName::input;
    const bool is_scratch = range.buffer == BufferName::scratch;
    const auto& parts = is_scratch ? slots_ : is_input ? lengths_.input : lengths_.output;
    const std::uint64_t begin = std::accumulate(parts.begin(), parts.begin() + range.begin, std::uint64_t{0});
    return {(is_scratch ? scratch_ : is_input ? input_ : output_).data() + begin, lengths_.of(range)};
  }

  /// As the range comes through a wire: chunk by chunk, because blocks do not reach beyond them.
  std::vector<float> rounded(const ChunkRange& range, const kernels::WireFormat& format) {
    const std::span<float> all = at(range);
    std::vector<float> result(all.begin(), all.end());
    std::vector<std::byte> bytes(format.bytes(result.size()) + format.block_bytes());
    std::uint64_t begin = 0;
    for (std::uint32_t i = 0; i < range.count; ++i) {
      const bool is_scratch = range.buffer == BufferName::scratch;
      const bool is_input = (is_scratch ? range.like_buffer : range.buffer) == BufferName::input;
      const auto& parts = is_input ? lengths_.input : lengths_.output;
      const std::uint64_t length = parts[((is_scratch ? range.like_begin : range.begin) + i) % parts.size()];
      format.encode(bytes.data(), result.data() + begin, length);
      format.decode(result.data() + begin, bytes.data(), length);
      begin += length;
    }
    return result;
  }
  void round(const ChunkRange& range, const kernels::WireFormat& format) {
    std::ranges::copy(rounded(range, format), at(range).begin());
  }

  std::vector<float>& output() { return output_; }

 private:
  ChunkLengths lengths_;
  std::vector<std::uint64_t> slots_;  // lengths of scratch's
  std::vector<float> input_;
  std::vector<float> output_;
  std::vector<float> scratch_;
};

void add(std::span<float> to, std::span<const float> left, std::span<const float> right) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = left[i] + right[i];
}

}  // namespace

std::vector<std::vector<float>> evaluate(std::span<const Schedule> schedules,
                                         const std::vector<std::vector<float>>& inputs, bool average,
                                         Wire wire) {
  const kernels::WireFormat format = kernels::wire_format(wire);
  const std::vector<std::uint64_t> parts =
      even_parts(inputs[0].size(), part_count(schedules[0]), format.block);
  const auto complete = [&](Rank& rank, const Step& step) {
    if (!step.completes) return;
    for (float& sum : rank.at(step.dst)) sum /= average ? static_cast<float>(schedules.size()) : 1.0f;
    rank.round(step.dst, format);
  };
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    ranks.emplace_back(schedules[r], chunk_lengths(schedules[r], parts), inputs[r]);
  }
  const MessageGraph graph = MessageGraph::build(schedules).value();
  for (const MessageGraph::Event& event : graph.events()) {
    const Step& step = schedules[event.step.rank].steps[event.step.step];
    Rank& rank = ranks[event.step.rank];
    if (step.kind == StepKind::copy) std::ranges::copy(rank.at(step.a), rank.at(step.dst).begin());
    if (step.kind == StepKind::reduce) {
      add(rank.at(step.dst), rank.at(step.a), rank.at(step.b));
      complete(rank, step);
    }
    if (!event.is_message) continue;
    const Step& meets = schedules[event.receiver.rank].steps[event.receiver.step];
    Rank& receiver = ranks[event.receiver.rank];
    const std::vector<float> incoming = rank.rounded(step.a, format);
    if (meets.kind == StepKind::recv) {
      std::ranges::copy(incoming, receiver.at(meets.dst).begin());
    } else if (meets.incoming_first) {
      add(receiver.at(meets.dst), incoming, receiver.at(meets.a));
    } else {
      add(receiver.at(meets.dst), receiver.at(meets.a), incoming);
    }
    complete(receiver, meets);
  }
  std::vector<std::vector<float>> outputs;
  for (Rank& rank : ranks) outputs.push_back(std::move(rank.output()));
  return outputs;
}

std::vector<float> awkward_numbers(int rank, std::uint64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    const float fraction = static_cast<float>(random() % 16'777'216) / 8'388'608.0f - 1.0f;
    number = std::ldexp(fraction, static_cast<int>(random() % 24));
  }
  return numbers;
}

std::vector<std::uint32_t> bits_of(std::span<const float> numbers) {
  std::vector<std::uint32_t> bits;
  for (const float number : numbers) bits.push_back(std::bit_cast<std::uint32_t>(number));
  return bits;
}

std::vector<std::uint32_t> expected_bits(const Configured& variant, int size, std::uint64_t count,
                                         bool average, Wire wire) {
  std::vector<Schedule> schedules;
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < size; ++rank) {
    schedules.push_back(
        variant.algorithm->generate({Collective::all_reduce, rank, size, 0, variant.arguments}));
    inputs.push_back(awkward_numbers(rank, count));
  }
  const auto outputs = evaluate(schedules, inputs, average, wire);
  for (const auto& output : outputs) EXPECT_EQ(bits_of(output), bits_of(outputs[0])) << variant.name();
  return bits_of(outputs[0]);
}

}  // namespace kolo::test
