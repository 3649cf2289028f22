#include "support/evaluate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

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

std::vector<std::vector<float>> evaluate_sum(std::span<const Schedule> schedules,
                                             const std::vector<std::vector<float>>& inputs) {
  const std::vector<std::uint64_t> parts = even_parts(inputs[0].size(), part_count(schedules[0]));
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    ranks.emplace_back(schedules[r], chunk_lengths(schedules[r], parts), inputs[r]);
  }
  const MessageGraph graph = MessageGraph::build(schedules).value();
  for (const MessageGraph::Event& event : graph.events()) {
    const Step& step = schedules[event.step.rank].steps[event.step.step];
    Rank& rank = ranks[event.step.rank];
    if (step.kind == StepKind::copy) std::ranges::copy(rank.at(step.a), rank.at(step.dst).begin());
    if (step.kind == StepKind::reduce) add(rank.at(step.dst), rank.at(step.a), rank.at(step.b));
    if (!event.is_message) continue;
    const Step& meets = schedules[event.receiver.rank].steps[event.receiver.step];
    Rank& receiver = ranks[event.receiver.rank];
    const std::span<float> incoming = rank.at(step.a);
    if (meets.kind == StepKind::recv) {
      std::ranges::copy(incoming, receiver.at(meets.dst).begin());
    } else if (meets.incoming_first) {
      add(receiver.at(meets.dst), incoming, receiver.at(meets.a));
    } else {
      add(receiver.at(meets.dst), receiver.at(meets.a), incoming);
    }
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

std::vector<std::uint32_t> expected_bits(const Configured& variant, int size, std::uint64_t count) {
  std::vector<Schedule> schedules;
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < size; ++rank) {
    schedules.push_back(
        variant.algorithm->generate({Collective::all_reduce, rank, size, 0, variant.arguments}));
    inputs.push_back(awkward_numbers(rank, count));
  }
  const auto outputs = evaluate_sum(schedules, inputs);
  for (const auto& output : outputs) EXPECT_EQ(bits_of(output), bits_of(outputs[0])) << variant.name();
  return bits_of(outputs[0]);
}

}  // namespace kolo::test
