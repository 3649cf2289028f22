// Each algorithm's form in shared memory, played by the executor's own code on symbols: every rank
// reads of every other, and puts where it belongs, what the algorithm's schedule gives.
#include <sys/mman.h>

#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "engine/shared_memory/call.hpp"
#include "schedule/symbolic_run.hpp"
#include "unit/algorithms/all_ranks.hpp"

namespace kolo {
namespace {

constexpr int kMostRanks = 16;

/// Symbol `origin` of the whole data, summed over some ranks.
using Symbol = std::uint64_t;
using Symbols = std::vector<Symbol>;
constexpr Symbol kWrong = ~Symbol{0};

Symbol symbol_of(std::uint64_t origin, int rank) {
  return origin << kMostRanks | Symbol{1} << rank;
}

/// As kernels::FoldFn: adds sets of ranks, in rank order.
void fold(void* const* outs, std::size_t out_count, const void* const* ins, std::size_t in_count,
          std::size_t count, std::uint64_t /*divisor*/) {
  constexpr Symbol kRanks = (Symbol{1} << kMostRanks) - 1;
  for (std::size_t i = 0; i < count; ++i) {
    const auto operand = [&](std::size_t r) { return static_cast<const Symbol*>(ins[r])[i]; };
    Symbol sum = operand(0);
    for (std::size_t r = 1; r < in_count && sum != kWrong; ++r) {
      const bool fits = operand(r) >> kMostRanks == sum >> kMostRanks;
      sum = fits && (operand(r) & kRanks) > (sum & kRanks) ? sum | operand(r) : kWrong;
    }
    for (std::size_t o = 0; o < out_count; ++o) static_cast<Symbol*>(outs[o])[i] = sum;
  }
}

/// What each rank's output holds after the schedules.
std::vector<Symbols> results_of(std::span<const schedule::Schedule> schedules,
                                std::span<const std::uint64_t> counts, schedule::Sharing sharing,
                                bool rank_ordered) {
  schedule::SymbolicRun run(schedules, counts, sharing, rank_ordered);
  const auto graph = schedule::MessageGraph::build(schedules);
  for (const schedule::MessageGraph::Event& event : graph.value().events())
    EXPECT_TRUE(run.execute(event).ok());
  std::vector<Symbols> results;
  for (const schedule::Schedule& schedule : schedules) {
    std::vector<schedule::Piece> pieces;
    const schedule::ChunkRange output{schedule::BufferName::output, 0,
                                      schedule::chunk_count(schedule, schedule::BufferName::output)};
    EXPECT_TRUE(run.read({static_cast<std::uint32_t>(schedule.rank), 0}, output, pieces).ok());
    Symbols& result = results.emplace_back();
    for (const schedule::Piece& piece : pieces) {
      Symbol summed = 0;
      for (const int rank : run.contributions().ranks(piece.who)) summed |= symbol_of(0, rank);
      for (std::uint64_t i = 0; i < piece.length; ++i)
        result.push_back((piece.origin + i) << kMostRanks | summed);
    }
  }
  return results;
}

/// The ways in which the executor carries out a call; the last three are those of ranks that share cores.
enum class Way {
  with_descriptors,
  in_place,
  by_one_rank,
  staged,
  in_place_in_turns,
  by_shares,
  staged_in_turns
};
constexpr Way kWays[] = {Way::with_descriptors,  Way::in_place,  Way::by_one_rank,    Way::staged,
                         Way::in_place_in_turns, Way::by_shares, Way::staged_in_turns};

/// The segments of a host's ranks.
class Host {
 public:
  Host() {
    void* const memory = mmap(nullptr, kMostRanks * sizeof(engine::shared_memory::Segment),
                              PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    segments_ = static_cast<engine::shared_memory::Segment*>(memory);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() { munmap(segments_, kMostRanks * sizeof(engine::shared_memory::Segment)); }

  /// Carries out `calls`, one of each rank, all in this thread. False if they wait for each other.
  bool play(std::vector<engine::shared_memory::Call>& calls, Way way) {
    std::vector<const void*> shown;
    std::vector<engine::shared_memory::Segment*> segments;
    std::vector<engine::shared_memory::CommSlot*> slots;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (const engine::shared_memory::Call& call : calls) {
      shown.push_back(call.input);
      segments.push_back(segments_ + call.rank);
      slots.push_back(segments.back()->slots);
      slots.back()->clear();
      inputs.push_back(call.input);
      outputs.push_back(call.output);
    }
    if (way == Way::with_descriptors) {
      // Descriptors hold copies: inputs may be overwritten while other ranks read.
      std::vector<Symbols> copies;
      for (const engine::shared_memory::Call& call : calls) {
        const std::uint64_t bytes = call.shape->shown_bytes(call.rank);
        Symbols& copy = copies.emplace_back(bytes / sizeof(Symbol));
        if (bytes > 0) std::memcpy(copy.data(), call.input, bytes);
        shown[static_cast<std::size_t>(call.rank)] = copy.data();
      }
      for (engine::shared_memory::Call& call : calls) {
        call.from = shown;
        finish_short(call);
      }
      return true;
    }
    std::vector<std::uint64_t> pieces(calls.size(), 0), done(calls.size(), 0);
    engine::shared_memory::Published published;
    std::vector<engine::shared_memory::Task> tasks;
    for (std::size_t r = 0; r < calls.size(); ++r) {
      engine::shared_memory::Call& call = calls[r];
      call.slots = slots;
      call.segments = segments;
      call.segment = segments[r];
      call.slot = slots[r];
      if (way != Way::staged && way != Way::staged_in_turns) {
        call.inputs = inputs;
        if (call.shape->form.writes_to_others()) call.outputs = outputs;
      }
      call.number = 1;
      if (way == Way::by_one_rank) call.owner = call.size - 1;
      if (way >= Way::in_place_in_turns) {
        call.cores = 2;
        call.counters = &slots[0]->shares[0];
      }
      if (way == Way::by_shares) call.shares = 3;
      call.done = &done[r];
      call.pieces = &pieces[r];
      call.published = &published;
      tasks.push_back(run(call));
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < tasks.size(); ++r) {
        if (done[r] > 0) slots[r]->done.value.store(done[r]);
        if (tasks[r].done() || !has_come(tasks[r].wait(), r, slots)) continue;
        tasks[r].resume();
        moved = true;
      }
    }
    return std::ranges::all_of(tasks, [](const engine::shared_memory::Task& task) { return task.done(); });
  }

 private:
  static bool has_come(const engine::shared_memory::Wait& wait, std::size_t rank,
                       const std::vector<engine::shared_memory::CommSlot*>& slots) {
    if (wait.common != nullptr) return wait.common->finished.load() >= wait.common_target;
    for (std::size_t r = 0; r < slots.size() && wait.counter != nullptr; ++r) {
      if (r != rank && (slots[r]->*wait.counter).value.load() < wait.target) return false;
    }
    return true;
  }

  engine::shared_memory::Segment* segments_;
};

/// What each rank's output holds after the form.
std::vector<Symbols> play(Host& host, const schedule::SharedMemoryForm& form,
                          std::span<const schedule::Schedule> schedules,
                          std::span<const std::uint64_t> counts, schedule::Sharing sharing, Way way) {
  const int size = schedules[0].size;
  const engine::shared_memory::Shape shape =
      engine::shared_memory::make_shape(form, counts, size, schedules[0].root, sizeof(Symbol));
  const auto own =
      schedule::ranges_of(schedule::Held::own_part,
                          counts.size() == schedules.size() ? counts : Symbols(schedules.size()), size, 0);
  std::vector<Symbols> inputs(schedules.size()), outputs(schedules.size());
  std::vector<engine::shared_memory::Call> calls(schedules.size());
  for (std::size_t r = 0; r < calls.size(); ++r) {
    const schedule::ChunkLengths lengths = schedule::chunk_lengths(schedules[r], counts);
    const auto count_of = [&](schedule::BufferName buffer) {
      return lengths.of({buffer, 0, schedule::chunk_count(schedules[r], buffer)});
    };
    outputs[r].assign(count_of(schedule::BufferName::output), kWrong);
    const schedule::DataRange& holds = shape.shown[r];
    for (std::uint64_t i = 0; i < count_of(schedule::BufferName::input); ++i)
      inputs[r].push_back(symbol_of(holds.begin + i, static_cast<int>(r)));
    Symbol* input = inputs[r].data();
    Symbol* output = outputs[r].data();
    if (sharing == schedule::Sharing::in_place) {
      if (form.kind == schedule::SharedMemoryForm::Kind::copy) {
        input = output + holds.begin;
        std::ranges::copy(inputs[r], input);
      } else {
        output = input + (form.kind == schedule::SharedMemoryForm::Kind::reduce_own ? own[r].begin : 0);
      }
    }
    engine::shared_memory::Call& call = calls[r];
    call.shape = &shape;
    call.fold = fold;
    call.rank = static_cast<int>(r);
    call.size = size;
    call.input = reinterpret_cast<const std::byte*>(input);
    call.output = reinterpret_cast<std::byte*>(output);
  }
  EXPECT_TRUE(host.play(calls, way));
  for (std::size_t r = 0; r < calls.size(); ++r) {
    const auto* output = reinterpret_cast<const Symbol*>(calls[r].output);
    outputs[r] = Symbols(output, output + outputs[r].size());
  }
  return outputs;
}

/// Whether the executor carries out calls of this form so.
bool fits(const schedule::SharedMemoryForm& form, Way way) {
  return form.writes_to_others() || (way != Way::by_one_rank && way != Way::by_shares);
}

void expect_results_of_schedule(Host& host, const algorithms::Algorithm& algorithm, int size, int root,
                                std::span<const std::uint64_t> counts) {
  const schedule::SharedMemoryForm& form = *algorithm.in_shared_memory;
  const std::vector<schedule::Schedule> schedules = all_ranks({&algorithm}, size, root);
  for (const schedule::Sharing sharing : schedule::kSharings) {
    if (!schedule::may_be(schedules[0], sharing)) continue;
    const auto expected = results_of(schedules, counts, sharing, form.reduces());
    for (const Way way : kWays) {
      if (!fits(form, way)) continue;
      EXPECT_EQ(play(host, form, schedules, counts, sharing, way), expected)
          << schedule::name_of(algorithm.collective) << ", " << size << " ranks, root " << root
          << schedule::suffix_of(sharing) << ", way " << static_cast<int>(way);
    }
  }
}

class EveryForm : public testing::TestWithParam<const algorithms::Algorithm*> {};

std::vector<const algorithms::Algorithm*> with_a_form() {
  std::vector<const algorithms::Algorithm*> all;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (algorithm.in_shared_memory) all.push_back(&algorithm);
  }
  return all;
}

TEST_P(EveryForm, GivesWhatItsScheduleGives) {
  Host host;
  for (const int size : {2, 3, 4, 5, 9}) {
    for (const int root : roots(*GetParam(), size)) {
      const std::uint32_t parts = schedule::part_count(all_ranks({GetParam()}, size, root)[0]);
      for (const auto& counts : awkward_counts(parts))
        expect_results_of_schedule(host, *GetParam(), size, root, counts);
    }
  }
}

TEST_P(EveryForm, GoesPieceByPiece) {
  Host host;
  for (const int size : {2, 3}) {
    const std::uint32_t parts = schedule::part_count(all_ranks({GetParam()}, size)[0]);
    if (parts == 0) continue;
    const std::uint64_t two_stages = 2 * engine::shared_memory::kStageBytes / sizeof(Symbol);
    std::vector<std::uint64_t> counts(parts, two_stages / 3);
    counts[0] = two_stages + 7;
    expect_results_of_schedule(host, *GetParam(), size, 0, counts);
  }
}

TEST_P(EveryForm, SumsInRankOrder) {
  EXPECT_EQ(GetParam()->in_shared_memory->reduces(), schedule::is_reducing(GetParam()->collective));
  if (GetParam()->in_shared_memory->reduces()) {
    EXPECT_TRUE(GetParam()->rank_ordered);
    EXPECT_EQ(GetParam()->in_shared_memory->input, schedule::Held::all);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, EveryForm, testing::ValuesIn(with_a_form()),
                         [](const auto& info) { return std::string(name_of(info.param->collective)); });

}  // namespace
}  // namespace kolo
