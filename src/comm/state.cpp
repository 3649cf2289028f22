#include "comm/state.hpp"

#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "algorithms/algorithm.hpp"
#include "base/arithmetic.hpp"
#include "base/config.hpp"
#include "base/hash.hpp"
#include "comm/labels.hpp"
#include "engine/message_number.hpp"
#include "kernels/wire_format.hpp"
#include "schedule/lengths.hpp"
#include "schedule/point_to_point.hpp"

namespace kolo {
namespace {

// Signature::reduction is the operation and, above it, the wire format.
constexpr int kWireShift = 4;
std::uint8_t reduction_and_wire(ReduceOp op, Wire wire) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(op) | static_cast<unsigned>(wire) << kWireShift);
}
ReduceOp reduction_of(const transport::Signature& signature) {
  return static_cast<ReduceOp>(signature.reduction & ((1u << kWireShift) - 1));
}
Wire wire_of(const transport::Signature& signature) {
  return static_cast<Wire>(signature.reduction >> kWireShift);
}

std::uint64_t details_of(const comm::Call& call, std::uint64_t segment_bytes) {
  std::uint64_t value = hash(kHashSeed, segment_bytes);
  if (call.uneven && call.collective != schedule::Collective::all_to_all) {
    const bool parts_are_in = call.collective == schedule::Collective::reduce_scatter ||
                              call.collective == schedule::Collective::scatter;
    for (const std::uint64_t part : parts_are_in ? call.in_parts : call.out_parts) value = hash(value, part);
  }
  if (const CustomReduction* custom = call.reduction.custom_reduction()) {
    value = hash(hash(value, std::uint64_t{1}), std::string_view(custom->name));
  }
  return hash(value, std::uint64_t{call.uneven});
}

/// The parts of the whole data: of each rank, or one.
std::span<const std::uint64_t> parts_of(const comm::Call& call) {
  const auto& parts = call.in_parts.size() > call.out_parts.size() ? call.in_parts : call.out_parts;
  return parts.empty() ? std::span(&call.count, 1) : std::span(parts);
}

/// Null for a built-in reduction, or if there is none.
const CustomReduction* custom_reduction_of(const comm::Call& call) {
  return schedule::is_reducing(call.collective) ? call.reduction.custom_reduction() : nullptr;
}

void use(const comm::PlanCache::Entry& entry, engine::OperationSpec& spec) {
  spec.prepared = entry.prepared.get();
  spec.signature.algorithm = entry.index;
  spec.signature.details = entry.details;
}

/// While the ranks meet, no costs are known to choose by. Trees connect few pairs of ranks.
std::string_view meeting_algorithm(schedule::Collective collective) {
  return collective == schedule::Collective::barrier ? "tree" : "binomial";
}

bool is_one_way(schedule::Collective collective) {
  return schedule::has_root(collective);
}

}  // namespace

std::string comm::describe(const transport::Signature& signature) {
  const auto collective = static_cast<schedule::Collective>(signature.collective);
  if (collective == schedule::Collective::send_recv) {
    return fmt::format("{} {}", signature.count, name_of(static_cast<DType>(signature.dtype)));
  }
  const bool may_be_inner =
      collective == schedule::Collective::all_gather || collective == schedule::Collective::all_reduce;
  if (may_be_inner && signature.root != 0)
    return fmt::format("split() or subgroup() number {}", signature.root);
  const auto all = algorithms::algorithms();
  std::string text(schedule::name_of(collective));
  const std::string label = Labels::instance().text_of(signature.details);
  const std::string purpose = label.empty() ? "" : " for " + label;
  if (collective == schedule::Collective::barrier) return text + purpose;
  text += "(";
  if (schedule::is_reducing(collective)) text += fmt::format("{} of ", name_of(reduction_of(signature)));
  text += fmt::format("{} {}", signature.count, name_of(static_cast<DType>(signature.dtype)));
  if (schedule::has_root(collective)) text += fmt::format(", root {}", signature.root);
  if (signature.algorithm < all.size()) text += fmt::format(", {}", all[signature.algorithm].name);
  if (const Wire wire = wire_of(signature); wire != Wire::native) {
    text += fmt::format(", {} on the wire", name_of(wire));
  }
  return text + ")" + purpose;
}

std::shared_ptr<Communicator::State> Communicator::State::make(const comm::Wireup& wireup, int rank, int size,
                                                               comm::Terms terms,
                                                               const std::function<bool()>& is_over) {
  auto made = std::make_shared<State>();
  made->engine = wireup.engine;
  made->terms = std::move(terms);
  made->timeout = comm::timeout_of(made->terms.options);
  made->rank = rank;
  made->size = size;
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  // Ranks that share cores count in each other's slots: behind the barrier all ranks have cleared theirs.
  made->group = made->engine->reserve(0, 0);
  made->engine->open(*made->group, std::move(ranks));
  made->chooser =
      std::make_unique<selection::Chooser>(selection::Topology{.size = size, .hosts = wireup.hosts});
  made->meeting = true;
  Communicator whole(made);
  if (is_over) {
    const Work barrier = whole.barrier_async();
    while (!barrier.wait(std::chrono::milliseconds(20))) {
      if (!is_over()) continue;
      made->engine->abort("another round has begun");
      throw AbortedError("shrink: another round has begun", {});
    }
  } else {
    whole.barrier();
  }
  // No rank needs any more what the ranks have met through.
  made->meeting = false;
  return made;
}

Communicator::State::~State() {
  if (engine != nullptr && group != nullptr && engine->is_here()) engine->close(*group);
}

// Calls and messages have a context and numbers of their own while ranks explore. So the user's first call
// has the first number after the barrier, however much there was to find out.
void Communicator::State::explore(Communicator& self, const comm::Wireup& wireup, bool measures) {
  constexpr std::uint32_t kMeeting = ~std::uint32_t{0};
  engine::Group* const own =
      std::exchange(group, engine->reserve(kMeeting, engine::shared_memory::kCommSlots));
  engine->open(*group, own->peers);
  const std::uint64_t calls_before = std::exchange(calls, 0);
  meeting = true;
  chooser = std::make_unique<selection::Chooser>(kolo::comm::explore(self, wireup, measures));
  meeting = false;
  engine->close(*std::exchange(group, own));
  calls = calls_before;
  messages_sent.clear();
}

void Communicator::State::share_memory() {
  plans = {};  // chosen before costs were known
  selection::Topology topology = chooser->topology();
  engine->share_memory(*group, topology.oversubscribed ? topology.cores : 0);
  // All ranks get the same result, because it follows from the kinds of links.
  topology.shares_memory = group->team != nullptr;
  chooser = std::make_unique<selection::Chooser>(std::move(topology));
}

Wire Communicator::State::wire_for(const comm::Call& call) const {
  if (size == 1) return Wire::native;
  if (call.options->wire) return *call.options->wire;
  // An algorithm that the caller names may not support the format, and within one host's memory there is no
  // wire.
  const bool is_free = call.options->algorithm.empty() && group->team == nullptr && !meeting;
  const Wire wanted = config().wire;
  return is_free && wanted != Wire::native && comm::why_not_rounded(call).empty() ? wanted : Wire::native;
}

selection::Choice Communicator::State::choice_of(const comm::Call& call, DType dtype, Wire wire) const {
  const CustomReduction* custom = custom_reduction_of(call);
  selection::Choice choice;
  choice.spec = {call.collective, rank, size, call.root, {}, chooser->topology().hosts};
  choice.requirements = {.rank_order = custom != nullptr && !custom->commutative,
                         .custom = custom != nullptr,
                         .in_place = call.one_buffer,
                         .uneven = call.uneven,
                         .rounded = wire != Wire::native};
  choice.bytes = choice.requirements.rounded ? kernels::wire_format(wire).bytes(call.count)
                                             : call.count * size_of(dtype);
  choice.wanted = call.options->algorithm;
  choice.preferred = meeting ? meeting_algorithm(call.collective) : config().algorithm;
  return choice;
}

comm::PlanCache::Entry Communicator::State::prepare(const comm::Call& call, DType dtype,
                                                    std::uint64_t segment_bytes, Wire wire) {
  const CustomReduction* custom = custom_reduction_of(call);
  selection::Choice choice = choice_of(call, dtype, wire);
  const bool in_place =
      call.in_place && !engine::is_scaled_average(call.reduction.op(), dtype, links().size());
  comm::PlanCache::Key key{.collective = call.collective,
                           .algorithm = std::string(choice.wanted),
                           .root = call.root,
                           .element_bytes = size_of(dtype),
                           .segment_bytes = segment_bytes,
                           .wire = wire,
                           .in_place = in_place,
                           .rank_order = choice.requirements.rank_order,
                           .custom = custom == nullptr ? std::nullopt : std::optional(custom->name),
                           .count = call.count,
                           .in_parts = {},
                           .out_parts = {}};
  if (call.uneven) {
    key.in_parts = call.in_parts;
    key.out_parts = call.out_parts;
  }
  return plans.get(std::move(key), [&] {
    const algorithms::ConfiguredAlgorithm chosen = chooser->choose(choice).value_or_throw();
    choice.spec.arguments = chosen.arguments;
    comm::PlanCache::Entry made;
    auto prepared = std::make_shared<engine::PreparedCall>();
    prepared->algorithm = chosen.name();
    made.prepared = prepared;
    made.index = static_cast<std::uint8_t>(chosen.algorithm - algorithms::algorithms().data());
    const std::uint64_t arguments = hash(kHashSeed, std::string_view(chosen.arguments.text()));
    made.details = hash(details_of(call, segment_bytes), arguments);
    const schedule::SharedMemoryForm* form = chooser->form_of(*chosen.algorithm, choice.requirements);
    if (group->team != nullptr && form != nullptr) {
      prepared->team = group->team.get();
      prepared->shape =
          engine::shared_memory::make_shape(*form, parts_of(call), size, call.root, size_of(dtype));
      return made;
    }
    const schedule::Schedule schedule = chosen.algorithm->generate(choice.spec);
    engine::Shape shape;
    shape.element_bytes = size_of(dtype);
    shape.segment_bytes = segment_bytes;
    shape.in_place = in_place;
    shape.input_parts = call.in_parts;
    shape.output_parts = call.out_parts;
    if (shape.input_parts.empty() && shape.output_parts.empty()) {
      shape.input_parts = shape.output_parts =
          schedule::even_parts(call.count, schedule.chunks, kernels::wire_format(wire).block);
    }
    shape.wire = prepared->wire = wire;
    prepared->plan = engine::make_plan(schedule, shape);
    return made;
  });
}

Work Communicator::State::start(comm::Call call, bool waits_now, comm::CountSpan counts,
                                comm::CountSpan recv_counts) {
  if (engine::InsideReduction::is_here()) [[unlikely]]
    comm::throw_inside_reduction(schedule::name_of(call.collective));
  with_memory([&] { return comm::check(call, rank, size, counts, recv_counts); }).throw_if_error();
  comm::Unscaled unscaled;
  if (call.reduction.factor() != nullptr) [[unlikely]]
    unscaled = with_memory([&] { return comm::place_scaled_input(call); });
  const std::uint64_t segment_bytes =
      call.options->segment_bytes > 0 ? call.options->segment_bytes : config().segment_bytes;
  engine::OperationSpec spec;
  spec.collective = call.collective;
  spec.input = call.in.data;
  spec.output = call.out.data;
  spec.dtype = call.collective == schedule::Collective::broadcast || call.in.data == nullptr ? call.out.dtype
                                                                                             : call.in.dtype;
  spec.group = group;
  spec.acknowledged = is_one_way(call.collective);
  spec.signature.collective = static_cast<std::uint8_t>(call.collective);
  spec.signature.dtype = static_cast<std::uint8_t>(spec.dtype);
  const Wire wire = wire_for(call);
  spec.signature.reduction = schedule::is_reducing(call.collective)
                                 ? reduction_and_wire(call.reduction.op(), wire)
                                 : std::uint8_t{0};
  spec.signature.root =
      schedule::has_root(call.collective) ? call.root : static_cast<std::int32_t>(call.split);
  spec.signature.count = call.count;

  return with_memory([&] {
    const std::lock_guard lock(mutex);
    const bool is_usual =
        call.options->algorithm.empty() && !call.uneven && call.reduction.custom_reduction() == nullptr;
    comm::PlanCache::Entry unusual;  // outlives the call of start()
    if (is_usual) {
      const comm::PlanCache::FastKey key{call.collective, spec.dtype,      call.reduction.op(),
                                         call.in_place,   call.one_buffer, call.root,
                                         call.count,      segment_bytes,   wire};
      comm::PlanCache::FastEntry& recent = plans.recent(key);
      if (recent.key != key) {
        recent.entry = prepare(call, spec.dtype, segment_bytes, wire);
        recent.key = key;
      }
      use(recent.entry, spec);
    } else {
      unusual = prepare(call, spec.dtype, segment_bytes, wire);
      use(unusual, spec);
    }
    if (const bool has_own = !call.options->label.empty(); has_own || !label.empty()) {
      spec.signature.details = comm::Labels::instance().mark(
          spec.signature.details, has_own ? std::string_view(call.options->label) : label,
          has_own ? call.options->label_number : label_number);
    }
    if (unscaled.data != nullptr) [[unlikely]] {
      const DefaultArithmetic arithmetic;
      kernels::scale_function(spec.dtype)(const_cast<void*>(spec.input), unscaled.data, call.in.count,
                                          unscaled.factor);
    }
    spec.reduction = std::move(call.reduction);
    spec.timeout = call.options->timeout.count() > 0 ? call.options->timeout : timeout.load();
    spec.counts = !meeting;
    spec.call = spec.sequence = ++calls;
    return Work(engine->start(spec, waits_now));
  });
}

Work Communicator::State::start_message(Message kind, ConstBuffer data, int peer, int tag, bool waits_now) {
  const bool sends = kind == Message::send;
  const bool is_from_any = kind == Message::recv_any;
  const char* name = is_from_any ? "recv_any" : sends ? "send" : "recv";
  comm::refuse_inside_reduction(name);
  const auto wrong = [&](const std::string& what) {
    Status(Code::invalid_argument, fmt::format("{}: {}", name, what), {.collective = name}).throw_if_error();
  };
  if (!is_from_any && (peer < 0 || peer >= size))
    wrong(fmt::format("peer {} is not a rank of this communicator of {}", peer, size));
  if (tag < 0) wrong(fmt::format("tag {} is negative", tag));
  if (!comm::is_usable(data)) wrong(comm::why_not_usable("data", data));
  const std::uint64_t segment_bytes = config().segment_bytes;
  engine::OperationSpec spec;
  spec.collective = schedule::Collective::send_recv;
  spec.input = data.data;
  spec.output = const_cast<void*>(data.data);
  spec.dtype = data.dtype;
  spec.group = group;
  spec.signature.collective = static_cast<std::uint8_t>(schedule::Collective::send_recv);
  spec.signature.dtype = static_cast<std::uint8_t>(data.dtype);
  spec.signature.count = data.count;
  spec.signature.details = segment_bytes;
  if (!sends) spec.source = is_from_any ? engine::kAnySource : peer;
  // A receive from any rank has the same plan as one from a named rank. The engine finds its source.
  const int planned_peer = is_from_any ? rank : peer;
  comm::PlanCache::Key key{.collective = schedule::Collective::send_recv,
                           .algorithm = {},
                           .root = sends ? peer : -1 - planned_peer,
                           .element_bytes = size_of(data.dtype),
                           .segment_bytes = segment_bytes,
                           .wire = Wire::native,
                           .in_place = false,
                           .rank_order = false,
                           .custom = {},
                           .count = data.count,
                           .in_parts = {},
                           .out_parts = {}};
  const auto make = [&] {
    engine::Shape shape;
    shape.element_bytes = size_of(data.dtype);
    shape.segment_bytes = segment_bytes;
    shape.input_parts = shape.output_parts = {data.count};
    auto prepared = std::make_shared<engine::PreparedCall>();
    prepared->plan = engine::make_plan(
        sends ? schedule::make_send(rank, size, peer) : schedule::make_recv(rank, size, planned_peer), shape);
    return comm::PlanCache::Entry{std::move(prepared), 0, 0};
  };
  return with_memory([&] {
    const std::lock_guard lock(mutex);
    const comm::PlanCache::Entry entry = plans.get(std::move(key), make);
    spec.prepared = entry.prepared.get();
    spec.timeout = timeout;
    spec.counts = !meeting;
    const std::uint32_t index = sends ? messages_sent[{peer, tag}]++ : 0;
    spec.sequence = engine::MessageNumber{static_cast<std::uint32_t>(tag), index}.sequence();
    return Work(engine->start(spec, waits_now));
  });
}

const selection::Topology& situation_of(const Communicator& communicator) {
  return communicator.state().chooser->topology();
}

}  // namespace kolo
