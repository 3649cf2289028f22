// Collectives, sends and receives, and batches of them: all are a kolo_call.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "c_api/guard.hpp"
#include "kolo/kolo.h"
#include "schedule/collective.hpp"

namespace kolo::c_api {
namespace {

#define KOLO_ROW(name, NAME, ...) static_assert(static_cast<int>(DType::name) == KOLO_##NAME);
KOLO_ELEMENT_TYPES(KOLO_ROW)
#undef KOLO_ROW
#define KOLO_ROW(name, NAME, ...) static_assert(static_cast<int>(ReduceOp::name) == KOLO_##NAME);
KOLO_REDUCE_OPS(KOLO_ROW)
#undef KOLO_ROW
static_assert(kReduceOpCount <= KOLO_PREMULTIPLIED_SUM);
static_assert(static_cast<int>(Wire::int8) + 1 == KOLO_WIRE_INT8 && kWireCount == KOLO_WIRE_INT8);
static_assert(static_cast<int>(DeviceKind::cuda) == KOLO_CUDA && KOLO_ANY_RANK == kAnyRank);

/// kolo_collective has the order of the table; only a send and a recv have one row there.
const schedule::CollectiveTraits& traits_of(int collective) {
  constexpr auto kMessage = static_cast<int>(schedule::Collective::send_recv);
  const bool is_message = collective == KOLO_SEND || collective == KOLO_RECV;
  return schedule::kCollectives[is_message ? kMessage
                                           : value_in<std::size_t>(collective, kMessage, "kolo_collective")];
}

Buffer buffer_of(const kolo_buffer& buffer) {
  const auto kind = value_in<DeviceKind>(buffer.device_kind, KOLO_CUDA + 1, "kolo_device_kind");
  if (buffer.device < 0 || buffer.device > std::numeric_limits<std::int16_t>::max())
    throw Misuse("there is no device " + std::to_string(buffer.device));
  return {buffer.data, buffer.count, type_of(buffer.dtype), {kind, static_cast<std::int16_t>(buffer.device)}};
}

Reduction reduction_of(const kolo_call& call) {
  if (call.op == KOLO_PREMULTIPLIED_SUM) return Reduction::premultiplied_sum(call.factor);
  if (call.op != KOLO_CUSTOM) return value_in<ReduceOp>(call.op, kReduceOpCount, "kolo_op");
  given(call.combine, "`combine` of KOLO_CUSTOM");
  const auto combine = [combine = call.combine, context = call.context](
                           void* out, const void* left, const void* right, std::uint64_t count, DType dtype) {
    const int result = combine(context, out, left, right, count, static_cast<kolo_dtype>(dtype));
    if (result != 0) throw Misuse("it returned " + std::to_string(result));
  };
  return Reduction::custom({std::string(text_or_empty(call.name)), combine, call.is_commutative != 0});
}

/// Options that no message has.
bool has_options(const kolo_call& call) {
  return call.algorithm != nullptr || call.segment_bytes != 0 || call.label != nullptr ||
         call.wire != KOLO_WIRE_DEFAULT;
}

CallOptions options_of(const kolo_call& call) {
  CallOptions options;
  options.algorithm = text_or_empty(call.algorithm);
  options.segment_bytes = call.segment_bytes;
  if (call.wire != KOLO_WIRE_DEFAULT) options.wire = wire_of(call.wire);
  options.label = text_or_empty(call.label);
  options.label_number = call.label_number;
  options.stream = call.stream;
  options.timeout = time_of(call.timeout_ns);
  options.waits_at_once = call.waits_at_once != 0;
  return options;
}

Counts counts_of(const Communicator& group, const std::uint64_t* counts) {
  if (counts == nullptr) return {};
  return std::span(counts, static_cast<std::size_t>(group.size()));
}

// Adds a call to a batch, or returns what a communicator returns: of the blocking call, or of the
// asynchronous one with the same arguments. (The blocking one is faster than to start and wait.)
#define KOLO_CALL(name, ...)                                                                \
  do {                                                                                      \
    if constexpr (std::is_same_v<Target, CallBatch>)                                        \
      return target.name(__VA_ARGS__), Work();                                              \
    else                                                                                    \
      return waits ? (target.name(__VA_ARGS__), Work()) : target.name##_async(__VA_ARGS__); \
  } while (false)

template <typename Target>
Work start_message(Target& target, const kolo_call& call, bool waits) {
  if (has_options(call))
    throw Misuse("sends and receives have no members below `tag` but `stream` and `timeout_ns`");
  const auto timeout = time_of(call.timeout_ns);
  if (call.collective == KOLO_SEND)
    KOLO_CALL(send, buffer_of(call.in), call.peer, call.tag, timeout, call.stream);
  const Buffer out = buffer_of(call.out);
  if constexpr (std::is_same_v<Target, Communicator>) {
    if (call.peer == KOLO_ANY_RANK) KOLO_CALL(recv_any, out, call.tag, timeout, call.stream);
  }
  KOLO_CALL(recv, out, call.peer, call.tag, timeout, call.stream);
}

template <typename B>
std::vector<B> buffers_of(const Communicator& group, const kolo_buffer* list) {
  std::vector<B> buffers;
  for (int rank = 0; list != nullptr && rank < group.size(); ++rank) buffers.push_back(buffer_of(list[rank]));
  return buffers;
}

/// A call with a list as `in`, as `out` or as both.
Work start_with_lists(Communicator& target, const kolo_call& call, const CallOptions& options, bool waits) {
  using Target = Communicator;
  const Buffer in = buffer_of(call.in);
  const Buffer out = buffer_of(call.out);
  const auto ins = buffers_of<ConstBuffer>(target, call.in_list);
  const auto outs = buffers_of<Buffer>(target, call.out_list);
  const Counts counts = counts_of(target, call.counts);
  if (outs.empty()) {
    if (call.collective == KOLO_REDUCE_SCATTER)
      KOLO_CALL(reduce_scatter, ins, out, reduction_of(call), options);
    if (call.collective == KOLO_SCATTER) KOLO_CALL(scatter, ins, out, call.root, counts, options);
  } else if (ins.empty()) {
    if (call.collective == KOLO_ALL_GATHER) KOLO_CALL(all_gather, in, outs, options);
    if (call.collective == KOLO_GATHER) KOLO_CALL(gather, in, outs, call.root, counts, options);
  } else if (call.collective == KOLO_ALL_TO_ALL) {
    KOLO_CALL(all_to_all, ins, outs, options);
  }
  throw Misuse(std::string(traits_of(call.collective).name) + " does not take these lists of buffers");
}

/// `group`: that of the target.
template <typename Target>
Work start(Target& target, const Communicator& group, const kolo_call& call, bool waits) {
  (void)traits_of(call.collective);  // throws if there is none
  if (call.collective == KOLO_SEND || call.collective == KOLO_RECV) return start_message(target, call, waits);
  static const CallOptions usual;
  std::optional<CallOptions> own;
  const bool is_usual =
      !has_options(call) && call.stream == nullptr && call.timeout_ns == 0 && call.waits_at_once == 0;
  const CallOptions& options = is_usual ? usual : own.emplace(options_of(call));
  if (call.in_list != nullptr || call.out_list != nullptr) {
    if constexpr (std::is_same_v<Target, Communicator>)
      return start_with_lists(target, call, options, waits);
    else
      throw Misuse("a batch takes no lists of buffers");
  }
  const Buffer in = buffer_of(call.in);
  const Buffer out = buffer_of(call.out);
  const Counts counts = counts_of(group, call.counts);
  switch (call.collective) {
    case KOLO_ALL_REDUCE:
      KOLO_CALL(all_reduce, in, out, reduction_of(call), options);
    case KOLO_REDUCE_SCATTER:
      KOLO_CALL(reduce_scatter, in, out, reduction_of(call), counts, options);
    case KOLO_ALL_GATHER:
      KOLO_CALL(all_gather, in, out, counts, options);
    case KOLO_BROADCAST:
      KOLO_CALL(broadcast, out, call.root, options);
    case KOLO_REDUCE:
      KOLO_CALL(reduce, in, out, call.root, reduction_of(call), options);
    case KOLO_SCATTER:
      KOLO_CALL(scatter, in, out, call.root, counts, options);
    case KOLO_GATHER:
      KOLO_CALL(gather, in, out, call.root, counts, options);
    case KOLO_SCAN:
      KOLO_CALL(scan, in, out, reduction_of(call), options);
    case KOLO_BARRIER:
      if constexpr (std::is_same_v<Target, Communicator>)
        KOLO_CALL(barrier, options);
      else
        throw Misuse("a batch takes no barrier");
    default:
      break;
  }
  if (in.data == out.data && in.count == out.count && in.dtype == out.dtype && call.counts == nullptr &&
      call.recv_counts == nullptr)
    KOLO_CALL(all_to_all, out, options);
  KOLO_CALL(all_to_all, in, out, counts, counts_of(group, call.recv_counts), options);
}

/// Starts a call; it is blocking if there is no place for its work.
void run(Communicator& group, kolo_work** work, const kolo_call& call) {
  if (work == nullptr) {
    (void)start(group, group, call, true);
    return;
  }
  auto handle = issue<kolo_work>({});
  known(handle.get()) = start(group, group, call, false);
  *work = handle.release();
}

/// The elements of all parts: `counts`, or `count` for each.
std::uint64_t sum_of(const Communicator& group, std::uint64_t count, const std::uint64_t* counts) {
  const auto ranks = static_cast<std::uint64_t>(group.size());
  if (counts != nullptr) return std::accumulate(counts, counts + ranks, std::uint64_t{0});
  std::uint64_t sum = 0;
  // No call takes so many.
  return __builtin_mul_overflow(count, ranks, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

/// A short form. `call` has all but the buffers.
kolo_status run(const char* function, kolo_communicator* communicator, kolo_work** work, kolo_call call,
                const void* in, void* out, std::uint64_t count, kolo_dtype dtype) noexcept {
  return guarded(function, communicator, [&] {
    if (work != nullptr) *work = nullptr;
    Communicator& group = known(communicator);
    if (call.op == KOLO_PREMULTIPLIED_SUM) throw Misuse("only kolo_start() takes a factor");
    const schedule::CollectiveTraits& traits = traits_of(call.collective);
    const auto fill = [&](kolo_buffer& buffer, const void* data, schedule::Parts parts, bool at_root,
                          const std::uint64_t* counts) {
      buffer.dtype = dtype;
      if (at_root && group.rank() != call.root) return;
      buffer.data = const_cast<void*>(data);
      buffer.count = parts == schedule::Parts::per_rank ? sum_of(group, count, counts)
                     : counts == nullptr                ? count
                                                        : counts[group.rank()];
    };
    fill(call.in, in, traits.input, traits.input_at_root, call.counts);
    fill(call.out, out, traits.output, traits.output_at_root,
         call.collective == KOLO_ALL_TO_ALL ? call.recv_counts : call.counts);
    run(group, work, call);
  });
}

}  // namespace
}  // namespace kolo::c_api

using namespace kolo::c_api;
using kolo::Communicator;

kolo_status kolo_start(kolo_communicator* communicator, const kolo_call* call, kolo_work** work) {
  return guarded(__func__, communicator, [&] {
    if (work != nullptr) *work = nullptr;
    run(known(communicator), work, read(call, "kolo_call"));
  });
}
kolo_status kolo_batch_create(kolo_communicator* communicator, kolo_batch** batch) {
  return make_handle(__func__, batch, [&] {
    return BatchOf{known(communicator), kolo::CallBatch(known(communicator))};
  });
}
kolo_status kolo_batch_add(kolo_batch* batch, const kolo_call* call) {
  return guarded(__func__, batch, [&] {
    auto& [communicator, calls] = known(batch);
    (void)start(calls, communicator, read(call, "kolo_call"), false);
  });
}
size_t kolo_batch_size(const kolo_batch* batch) {
  return value_of<size_t>(__func__, 0, [&] { return known(batch).batch.size(); });
}
kolo_status kolo_batch_clear(kolo_batch* batch) {
  return guarded(__func__, [&] { known(batch).batch.clear(); });
}
kolo_status kolo_batch_start(kolo_batch* batch, kolo_work** works) {
  return guarded(__func__, [&] {
    kolo::CallBatch& calls = known(batch).batch;
    if (works == nullptr) return calls.run();
    std::fill_n(works, calls.size(), nullptr);
    std::vector<OwnedHandle<kolo_work>> handles;
    while (handles.size() < calls.size()) handles.push_back(issue<kolo_work>({}));
    const std::vector<kolo::Work> started = calls.start();
    for (size_t i = 0; i < started.size(); ++i) {
      known(handles[i].get()) = started[i];
      works[i] = handles[i].release();
    }
  });
}
kolo_status kolo_get_estimate(const kolo_communicator* communicator, const kolo_call* call, uint64_t bytes,
                              kolo_estimate* estimate) {
  return guarded(__func__, communicator, [&] {
    (void)read(estimate, "kolo_estimate");
    const kolo_call known_call = read(call, "kolo_call");
    const auto name = traits_of(known_call.collective).name;
    const kolo::Estimate result = known(communicator).estimate(name, bytes, options_of(known_call));
    kolo_estimate made = {0, result.time.count(), result.bytes_sent, result.measured, result.shared_memory,
                          {}};
    result.algorithm.copy(made.algorithm, sizeof made.algorithm - 1);
    write(estimate, made);
  });
}
kolo_status kolo_all_reduce(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                            kolo_dtype dtype, kolo_op op, kolo_work** work) {
  return run(__func__, communicator, work, {.collective = KOLO_ALL_REDUCE, .op = op}, in, out, count, dtype);
}
kolo_status kolo_scan(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                      kolo_dtype dtype, kolo_op op, kolo_work** work) {
  return run(__func__, communicator, work, {.collective = KOLO_SCAN, .op = op}, in, out, count, dtype);
}
kolo_status kolo_reduce_scatter(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                                const uint64_t* counts, kolo_dtype dtype, kolo_op op, kolo_work** work) {
  return run(__func__, communicator, work, {.collective = KOLO_REDUCE_SCATTER, .op = op, .counts = counts},
             in, out, count, dtype);
}
kolo_status kolo_all_gather(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                            const uint64_t* counts, kolo_dtype dtype, kolo_work** work) {
  return run(__func__, communicator, work, {.collective = KOLO_ALL_GATHER, .counts = counts}, in, out, count,
             dtype);
}
kolo_status kolo_broadcast(kolo_communicator* communicator, void* data, uint64_t count, kolo_dtype dtype,
                           int root, kolo_work** work) {
  return run(__func__, communicator, work, {.collective = KOLO_BROADCAST, .root = root}, nullptr, data, count,
             dtype);
}
kolo_status kolo_reduce(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                        kolo_dtype dtype, kolo_op op, int root, kolo_work** work) {
  return run(__func__, communicator, work, {.collective = KOLO_REDUCE, .op = op, .root = root}, in, out,
             count, dtype);
}
kolo_status kolo_scatter(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                         const uint64_t* counts, kolo_dtype dtype, int root, kolo_work** work) {
  return run(__func__, communicator, work, {.collective = KOLO_SCATTER, .counts = counts, .root = root}, in,
             out, count, dtype);
}
kolo_status kolo_gather(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                        const uint64_t* counts, kolo_dtype dtype, int root, kolo_work** work) {
  return run(__func__, communicator, work, {.collective = KOLO_GATHER, .counts = counts, .root = root}, in,
             out, count, dtype);
}
kolo_status kolo_all_to_all(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                            const uint64_t* send_counts, const uint64_t* recv_counts, kolo_dtype dtype,
                            kolo_work** work) {
  return run(__func__, communicator, work,
             {.collective = KOLO_ALL_TO_ALL, .counts = send_counts, .recv_counts = recv_counts}, in, out,
             count, dtype);
}
kolo_status kolo_barrier(kolo_communicator* communicator, kolo_work** work) {
  return run(__func__, communicator, work, {.collective = KOLO_BARRIER}, nullptr, nullptr, 0, KOLO_UINT8);
}
kolo_status kolo_send(kolo_communicator* communicator, const void* data, uint64_t count, kolo_dtype dtype,
                      int peer, int tag, kolo_work** work) {
  return run(__func__, communicator, work, {.collective = KOLO_SEND, .peer = peer, .tag = tag}, data, nullptr,
             count, dtype);
}
kolo_status kolo_recv(kolo_communicator* communicator, void* data, uint64_t count, kolo_dtype dtype, int peer,
                      int tag, kolo_work** work) {
  return run(__func__, communicator, work, {.collective = KOLO_RECV, .peer = peer, .tag = tag}, nullptr, data,
             count, dtype);
}
kolo_status kolo_recv_any(kolo_communicator* communicator, void* data, uint64_t count, kolo_dtype dtype,
                          int tag, int* source) {
  return guarded(__func__, communicator, [&] {
    const int rank = known(communicator).recv_any({data, count, type_of(dtype)}, tag);
    if (source != nullptr) *source = rank;
  });
}
kolo_status kolo_sendrecv(kolo_communicator* communicator, const kolo_buffer* out, int to,
                          const kolo_buffer* in, int from, int tag, kolo_work** works) {
  return guarded(__func__, communicator, [&] {
    if (works != nullptr) works[0] = works[1] = nullptr;
    Communicator& group = known(communicator);
    const kolo::Buffer sent = buffer_of(given(out, "`out`")), received = buffer_of(given(in, "`in`"));
    if (works == nullptr) return group.sendrecv(sent, to, received, from, tag);
    auto send = issue<kolo_work>({}), recv = issue<kolo_work>({});
    const auto started = group.sendrecv_async(sent, to, received, from, tag);
    known(send.get()) = started[0];
    known(recv.get()) = started[1];
    works[0] = send.release();
    works[1] = recv.release();
  });
}
kolo_status kolo_probe(kolo_communicator* communicator, int peer, int tag, int64_t timeout_ns,
                       kolo_message* message) {
  return guarded(__func__, communicator, [&] {
    (void)read(message, "kolo_message");
    const auto found = known(communicator).probe(peer, tag, time_of(timeout_ns));
    const auto shown = found.value_or(kolo::ProbedMessage());
    write(message, {0, shown.source, static_cast<std::int32_t>(shown.dtype), shown.count});
  });
}
