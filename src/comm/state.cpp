#include "comm/state.hpp"

#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "algorithms/algorithm.hpp"
#include "base/config.hpp"
#include "base/hash.hpp"
#include "base/reduction.hpp"
#include "comm/device/device_calls.hpp"
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

/// The counts of an all_to_all are those of one rank: no other rank has the same.
std::uint64_t details_of(const schedule::CallKey& key) {
  std::uint64_t value = hash(kHashSeed, key.segment_bytes);
  if (key.collective != schedule::Collective::all_to_all) {
    for (const std::uint64_t part : key.parts) value = hash(value, part);
  }
  if (key.is_custom()) value = hash(hash(value, std::uint64_t{1}), key.custom);
  return hash(value, std::uint64_t{key.is_uneven()});
}

/// The parts of the whole data: of each rank, or one.
std::vector<std::uint64_t> parts_of(const schedule::CallKey& key, int size) {
  if (key.is_uneven()) return key.parts;
  const schedule::CollectiveTraits& traits = schedule::traits_of(key.collective);
  const bool has_parts = traits.input_within_output() || traits.output_within_input();
  return schedule::even_parts(key.count, has_parts ? static_cast<std::uint64_t>(size) : 1);
}

/// Of a message; a collective's has more.
transport::Signature basic_signature(const schedule::CallKey& key) {
  transport::Signature signature;
  signature.collective = static_cast<std::uint8_t>(key.collective);
  signature.dtype = static_cast<std::uint8_t>(key.dtype);
  signature.count = key.count;
  return signature;
}

/// Of a collective that runs the algorithm of this number, or in a way that is none.
transport::Signature signature_of(const schedule::CallKey& key, std::size_t algorithm,
                                  std::string_view arguments) {
  transport::Signature signature = basic_signature(key);
  signature.reduction = reduction_and_wire(key.op, key.wire);
  signature.algorithm = static_cast<std::uint8_t>(algorithm);
  signature.root = key.root;
  signature.details = hash(details_of(key), hash(kHashSeed, arguments));
  return signature;
}

/// While the ranks meet, no costs are known to choose by. Trees connect few pairs of ranks.
std::string_view meeting_algorithm(schedule::Collective collective) {
  return collective == schedule::Collective::barrier ? "tree" : "binomial";
}

}  // namespace

std::string comm::describe(const transport::Signature& signature) {
  // A signature comes from the network.
  if (signature.collective >= schedule::kCollectives.size())
    return fmt::format("unknown collective {}", signature.collective);
  const auto collective = static_cast<schedule::Collective>(signature.collective);
  if (collective == schedule::Collective::send_recv) {
    return fmt::format("{} {}", signature.count, name_of(static_cast<DType>(signature.dtype)));
  }
  const bool may_be_inner =
      collective == schedule::Collective::all_gather || collective == schedule::Collective::all_reduce;
  if (may_be_inner && signature.root == static_cast<std::int32_t>(kCreatesGroup)) return "create_group()";
  const int batched = signature.root >> comm::kBatchShift;
  if (may_be_inner && batched <= 0 && signature.root != 0)
    return fmt::format("split() or subgroup() number {}", signature.root);
  const auto all = algorithms::algorithms();
  std::string text(schedule::name_of(collective));
  const std::string label = Labels::instance().text_of(signature.details);
  const std::string purpose = label.empty() ? "" : " for " + label;
  if (collective == schedule::Collective::barrier) return text + purpose;
  text += "(";
  if (schedule::is_reducing(collective)) text += fmt::format("{} of ", name_of(reduction_of(signature)));
  text += fmt::format("{} {}", signature.count, name_of(static_cast<DType>(signature.dtype)));
  if (schedule::has_root(collective))
    text += fmt::format(", root {}", signature.root & ((1 << comm::kBatchShift) - 1));
  if (signature.algorithm == comm::kOnDevice) text += ", on a device";
  if (signature.algorithm == comm::kListsOnDevice) text += ", in lists on a device";
  if (signature.algorithm < all.size()) text += fmt::format(", {}", all[signature.algorithm].name);
  if (batched > 0) text += fmt::format(", {} calls of a batch", batched);
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
  selection::Topology topology;
  topology.size = size;
  topology.hosts = wireup.hosts;
  made->chooser = std::make_unique<selection::Chooser>(std::move(topology));
  made->meeting = true;
  Communicator whole(made);
  if (is_over) {
    const Work barrier = whole.barrier_async();
    while (!barrier.wait(std::chrono::milliseconds(20))) {
      if (!is_over()) continue;
      made->engine->fail(Code::aborted, "aborted: another round has begun");
      throw AbortedError("shrink: another round has begun", {});
    }
  } else {
    whole.barrier();
  }
  // No rank needs any more what the ranks have met through.
  made->meeting = false;
  return made;
}

Communicator::State::State() = default;

Communicator::State::~State() {
  // In a forked child: the parent's thread waits within, and NCCL is the parent's.
  if (engine != nullptr && !engine->is_here()) static_cast<void>(device_calls.release());
  device_calls.reset();
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

Wire Communicator::State::wire_for(const schedule::CallKey& key, const CallOptions& options) const {
  if (size == 1) return Wire::native;
  if (options.wire) return *options.wire;
  // An algorithm that the caller names may not support the format, and within one host's memory there is no
  // wire.
  const bool is_free = options.algorithm.empty() && group->team == nullptr && !meeting;
  if (!is_free || config().wire == Wire::native || !comm::why_not_rounded(key).empty()) return Wire::native;
  return config().wire;
}

void Communicator::State::apply(const CallOptions& options, schedule::CallKey& key) const {
  key.segment_bytes = options.segment_bytes > 0 ? options.segment_bytes : config().segment_bytes;
  key.wire = wire_for(key, options);
  key.algorithm = options.algorithm;
}

std::shared_ptr<const engine::PreparedCall> Communicator::State::prepare(const schedule::CallKey& key) const {
  auto prepared = std::make_shared<engine::PreparedCall>();
  prepared->key = key;
  if (key.collective == schedule::Collective::send_recv) {
    prepared->signature = basic_signature(key);
    prepared->signature.details = key.segment_bytes;
    prepared->plan = engine::make_plan(key.root >= 0 ? schedule::make_send(rank, size, key.root)
                                                     : schedule::make_recv(rank, size, -1 - key.root),
                                       key);
    return prepared;
  }
  const std::uint64_t bytes =
      key.is_rounded() ? kernels::wire_format(key.wire).bytes(key.count) : key.count * size_of(key.dtype);
  const Result<algorithms::ConfiguredAlgorithm> choice =
      chooser->choose(key, bytes, meeting ? meeting_algorithm(key.collective) : config().algorithm);
  require(choice.status());
  const algorithms::ConfiguredAlgorithm& chosen = choice.value();
  prepared->algorithm = chosen.name();
  prepared->signature =
      signature_of(key, static_cast<std::size_t>(chosen.algorithm - algorithms::algorithms().data()),
                   chosen.arguments.text());
  const schedule::SharedMemoryForm* form = chooser->form_of(*chosen.algorithm, key);
  if (group->team != nullptr && form != nullptr) {
    prepared->team = group->team.get();
    prepared->shape =
        engine::shared_memory::make_shape(*form, parts_of(key, size), size, key.root, size_of(key.dtype));
    if (form->reduces()) prepared->shape.fold = kernels::fold_function(key.dtype, key.op);
  } else {
    prepared->plan =
        engine::make_plan(chosen.algorithm->generate({key.collective, rank, size, key.root, chosen.arguments,
                                                      chooser->topology().hosts}),
                          key);
  }
  return prepared;
}

transport::Signature Communicator::State::device_signature(const schedule::CallKey& key,
                                                           const CallOptions& options, bool has_lists) const {
  // Where all ranks have all parts, NCCL has one call for parts side by side, and another one for others.
  const bool differs = has_lists && !schedule::has_root(key.collective);
  transport::Signature signature =
      signature_of(key, differs ? comm::kListsOnDevice : comm::kOnDevice, options.algorithm);
  mark(signature, options);
  return signature;
}

Work Communicator::State::start_on_device(comm::Call&& call, comm::CountSpan counts,
                                          comm::CountSpan recv_counts) {
  return with_memory([&] {
    {
      const std::lock_guard lock(mutex);
      if (device_calls == nullptr) device_calls = std::make_unique<DeviceCalls>(*this);
    }
    return device_calls->start(std::move(call), counts, recv_counts);
  });
}

Work Communicator::State::start(comm::Call&& call, bool waits_now, comm::CountSpan counts,
                                comm::CountSpan recv_counts) {
  if (engine::InsideReduction::is_here()) [[unlikely]]
    comm::throw_inside_reduction(schedule::name_of(call.collective));
  schedule::CallKey key;
  const CallOptions& options = *call.options;
  const engine::PreparedCall* known = nullptr;
  if (call.checked != nullptr) [[unlikely]] {
    key = call.checked->key;
    known = call.checked->prepared.get();
  } else {
    const Status status = with_memory([&] {
      Status checked = comm::check(call, rank, size, counts, recv_counts, key);
      if (checked.ok()) apply(options, key);
      return checked;
    });
    if (!status.ok()) [[unlikely]] {
      if (comm::is_on_device(call)) return start_on_device(std::move(call), counts, recv_counts);
      refuse(status);
    }
  }
  comm::Unscaled unscaled;
  if (call.reduction.factor() != nullptr) [[unlikely]]
    unscaled = with_memory([&] { return comm::place_scaled_input(call, key); });
  engine::OperationSpec spec;
  spec.group = group;
  spec.input = call.in.data;
  spec.output = call.out.data;
  return with_memory([&] {
    const std::lock_guard lock(mutex);
    const engine::PreparedCall& prepared =
        known != nullptr ? *known : plans.get(key, [&] { return prepare(key); });
    spec.prepared = &prepared;
    spec.signature = prepared.signature;
    if (call.split != 0) spec.signature.root = static_cast<std::int32_t>(call.split);
    mark(spec.signature, options);
    if (unscaled.data != nullptr) [[unlikely]]
      comm::scale(unscaled, call);
    if (call.lists != nullptr) [[unlikely]] {
      comm::find_parts(*call.lists, listed);
      spec.listed = &listed;
    }
    spec.reduction = std::move(call.reduction);
    spec.timeout = call.options->timeout.count() > 0 ? call.options->timeout : timeout.load();
    spec.counts = !meeting;
    spec.call = spec.sequence = ++calls;
    return Work(engine->start(spec, waits_now || options.waits_at_once));
  });
}

void Communicator::State::refuse(const Status& status) const {
  ErrorContext context = status.context();
  context.peer = rank;
  Status(status.code(), fmt::format("rank {}: {}", rank, status.message()), context).throw_if_error();
}

void Communicator::State::check_message(const char* name, ConstBuffer data, int peer, int tag,
                                        std::chrono::nanoseconds own_timeout) const {
  comm::refuse_inside_reduction(name);
  const auto wrong = [&](const std::string& what) { refuse(comm::wrong(name, what)); };
  if (peer < 0 || peer >= size)
    wrong(fmt::format("peer {} is not a rank of this communicator of {}", peer, size));
  if (tag < 0) wrong(fmt::format("tag {} is negative", tag));
  if (data.device.kind == DeviceKind::cuda) data.device = {};
  if (!comm::is_usable(data)) wrong(comm::why_not_usable("data", data));
  if (own_timeout.count() < 0) wrong(fmt::format("the timeout is negative: {} ns", own_timeout.count()));
}

Work Communicator::State::start_message(Message kind, ConstBuffer data, int peer, int tag,
                                        std::chrono::nanoseconds own_timeout, bool waits_now, void* stream) {
  const bool sends = kind == Message::send;
  const bool probes = kind == Message::probe;
  const bool is_from_any = kind == Message::recv_any || probes;
  // A receive from any rank has the same plan as one from a named rank. The engine finds its source.
  const int planned_peer = is_from_any && peer == kAnyRank ? rank : peer;
  const char* const name = probes ? "probe" : is_from_any ? "recv_any" : sends ? "send" : "recv";
  check_message(name, data, planned_peer, tag, own_timeout);
  const bool is_on_device = data.device.kind == DeviceKind::cuda;
  if (stream != nullptr && !is_on_device) refuse(comm::wrong(name, comm::kNoDeviceForStream));
  const schedule::CallKey key{.collective = schedule::Collective::send_recv,
                              .dtype = data.dtype,
                              .root = sends ? peer : -1 - planned_peer,
                              .count = data.count,
                              .segment_bytes = config().segment_bytes};
  engine::OperationSpec spec;
  spec.group = group;
  spec.input = data.data;
  spec.output = const_cast<void*>(data.data);
  spec.timeout = own_timeout.count() > 0 ? own_timeout : timeout.load();
  std::shared_ptr<comm::Staging> staging;
  if (is_on_device && data.count > 0) {
    auto staged = with_memory([&] {
      return device_messages->stage(data, sends, static_cast<device::cuda::Stream>(stream), spec.timeout);
    });
    if (!staged.ok()) refuse(staged.status().prefixed(name));
    staging = std::move(staged).value();
    spec.input = spec.output = comm::DeviceMessages::memory_of(*staging);
    spec.reduction = reduction_that_keeps(ReduceOp::sum, staging);
  }
  if (!sends) spec.source = is_from_any ? engine::kAnySource : peer;
  if (probes) spec.probed = peer;
  return with_memory([&] {
    const std::lock_guard lock(mutex);
    const engine::PreparedCall& prepared = plans.get(key, [&] { return prepare(key); });
    spec.prepared = &prepared;
    spec.signature = prepared.signature;
    std::shared_ptr<engine::PreparedCall> own;
    if (staging != nullptr && !sends) {
      own = std::make_shared<engine::PreparedCall>(prepared);
      own->before_end = [own_rank = rank, name, data, used = staging.get()] {
        const Status status = comm::DeviceMessages::copy(*used, data, false);
        return status.ok() ? status : status.prefixed(fmt::format("rank {}: {}", own_rank, name));
      };
      spec.prepared = own.get();
    }
    spec.counts = !meeting && !probes;
    const std::uint32_t index = sends ? messages_sent[{peer, tag}]++ : 0;
    spec.sequence = engine::MessageNumber{static_cast<std::uint32_t>(tag), index}.sequence();
    return Work(engine->start(spec, waits_now));
  });
}

const selection::Topology& situation_of(const Communicator& communicator) {
  return communicator.state().chooser->topology();
}

}  // namespace kolo
