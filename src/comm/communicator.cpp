#include "kolo/communicator.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/config.hpp"
#include "base/limits.hpp"
#include "comm/checked_store.hpp"
#include "comm/lobby.hpp"
#include "comm/settings.hpp"
#include "comm/state.hpp"
#include "comm/system_errors.hpp"
#include "rendezvous/own_store.hpp"

namespace kolo {
namespace {

using schedule::Collective;

// Field by field: a wide load of what was just stored in parts would wait for the stores.
[[gnu::always_inline]] inline comm::Call make_call(Collective collective, const ConstBuffer& in,
                                                   const Buffer& out, const CallOptions& options,
                                                   int root = 0, Reduction reduction = ReduceOp::sum) {
  comm::Call call;
  call.collective = collective;
  call.in = ConstBuffer(in.data, in.count, in.dtype, in.device);
  call.out = Buffer(out.data, out.count, out.dtype, out.device);
  call.options = &options;
  call.root = root;
  call.reduction = std::move(reduction);
  return call;
}

comm::Call make_in_place_all_to_all(Buffer data, const CallOptions& options) {
  comm::Call call = make_call(Collective::all_to_all, data, data, options);
  call.one_buffer = true;
  return call;
}

}  // namespace

Communicator Communicator::create(const Options& options) {
  comm::refuse_inside_reduction("create");
  return comm::with_system_errors([&] {
    const Launch launch = launch_from_environment();
    const auto timeout = comm::timeout_of(options);
    // If all ranks have a wrong setting, each finds it without the store. If only this rank has one, it tells
    // the other ranks through the store.
    const Status settings = comm::check_settings(options);
    std::shared_ptr<Store> store;
    try {
      const auto patience =
          settings.ok() ? timeout : std::min<std::chrono::nanoseconds>(timeout, comm::kFarewell);
      store = store_from_environment(launch, patience, options.key);
    } catch (const std::exception&) {
      settings.throw_if_error();
      throw;
    }
    if (config().join != "never") return comm::join_or_meet(store, launch, options);
    return create(std::move(store), launch.rank, launch.size, options);
  });
}

Communicator Communicator::create(std::shared_ptr<Store> store, int rank, int size, const Options& options) {
  comm::refuse_inside_reduction("create");
  if (store == nullptr) throw InvalidArgumentError("Communicator::create: the store is null", {});
  if (size < 1 || rank < 0 || rank >= size) {
    throw InvalidArgumentError("Communicator::create: rank " + std::to_string(rank) + " of " +
                                   std::to_string(size) + " ranks makes no sense",
                               {});
  }
  if (size > kMostRanks) {
    throw InvalidArgumentError("Communicator::create: " + std::to_string(size) + " ranks are more than " +
                                   std::to_string(kMostRanks),
                               {});
  }
  comm::Wireup wireup;
  std::shared_ptr<State> state;
  const auto timeout = comm::with_system_errors([&] { return comm::timeout_of(options); });
  const auto checked = comm::with_system_errors([&] { return comm::make_checked_store(store, timeout); });
  comm::AddressExchange address_exchange(checked, rank, size, timeout);
  address_exchange.attempt([&] {
    comm::Terms terms{{}, store->host(), options};
    comm::check_settings(options).throw_if_error();
    wireup = comm::connect(address_exchange, rank, terms);
    if (rank == 0 && size > 1) comm::warn_of_short_key(options);
    state = State::make(wireup, rank, size, terms);
  });
  state->store = std::move(store);
  Communicator made(state);
  state->with_memory([&] {
    if (size > 1) state->explore(made, wireup, options.measure_costs);
    state->share_memory();
  });
  return made;
}

/// The state, for what stays true in a forked child.
const Communicator::State& Communicator::known() const {
  if (state_ == nullptr)
    throw InvalidArgumentError(
        "this Communicator has no group: it was default-constructed, moved "
        "from, or this rank is not in the group that split made",
        {});
  return *state_;
}

/// The state, for calls that take a lock or need another rank.
Communicator::State& Communicator::state() const {
  if (!known().home.is_here()) state_->home.refusal("this communicator").throw_if_error();
  return *state_;
}

int Communicator::rank() const {
  return known().rank;
}
int Communicator::size() const {
  return known().size;
}
const std::shared_ptr<Timeline>& Communicator::timeline() const {
  return known().engine->options().timeline;
}
Counters Communicator::counters() const {
  comm::refuse_inside_reduction("counters");
  return state().engine->counters();
}
std::chrono::nanoseconds Communicator::timeout() const {
  return known().timeout;
}
void Communicator::set_timeout(std::chrono::nanoseconds timeout) {
  State& own = state();
  if (timeout.count() <= 0)
    own.refuse(comm::wrong("set_timeout",
                           fmt::format("{} ns is no time in which a call could be over", timeout.count())));
  own.timeout = timeout;
}

std::string Communicator::transport_to(int peer) const {
  comm::refuse_inside_reduction("transport_to");
  const State& s = state();
  if (peer < 0 || peer >= s.size) s.refuse(comm::wrong("transport_to", fmt::format("no rank {}", peer)));
  return s.engine->transport_to(s.links()[static_cast<std::size_t>(peer)]);
}

std::string Communicator::network() const {
  return state().engine->options().network;
}

// --- Collectives: each blocking form starts the same call and waits.
// ---------------------------------------------

Work Communicator::all_reduce_async(Buffer data, Reduction reduction, const CallOptions& options) {
  return state().start(make_call(Collective::all_reduce, data, data, options, 0, std::move(reduction)),
                       false);
}
Work Communicator::all_reduce_async(BorrowedConstBuffer in, Buffer out, Reduction reduction,
                                    const CallOptions& options) {
  return state().start(make_call(Collective::all_reduce, in, out, options, 0, std::move(reduction)), false);
}
void Communicator::all_reduce(Buffer data, Reduction reduction, const CallOptions& options) {
  state().run(make_call(Collective::all_reduce, data, data, options, 0, std::move(reduction)));
}
void Communicator::all_reduce(ConstBuffer in, Buffer out, Reduction reduction, const CallOptions& options) {
  state().run(make_call(Collective::all_reduce, in, out, options, 0, std::move(reduction)));
}

Work Communicator::reduce_scatter_async(BorrowedConstBuffer in, Buffer out, Reduction reduction,
                                        const Counts& counts, const CallOptions& options) {
  return state().start(make_call(Collective::reduce_scatter, in, out, options, 0, std::move(reduction)),
                       false, counts);
}
void Communicator::reduce_scatter(ConstBuffer in, Buffer out, Reduction reduction, const Counts& counts,
                                  const CallOptions& options) {
  state().run(make_call(Collective::reduce_scatter, in, out, options, 0, std::move(reduction)), counts);
}

Work Communicator::all_gather_async(BorrowedConstBuffer in, Buffer out, const Counts& counts,
                                    const CallOptions& options) {
  return state().start(make_call(Collective::all_gather, in, out, options), false, counts);
}
void Communicator::all_gather(ConstBuffer in, Buffer out, const Counts& counts, const CallOptions& options) {
  state().run(make_call(Collective::all_gather, in, out, options), counts);
}

Work Communicator::broadcast_async(Buffer data, int root, const CallOptions& options) {
  return state().start(make_call(Collective::broadcast, data, data, options, root), false);
}
void Communicator::broadcast(Buffer data, int root, const CallOptions& options) {
  state().run(make_call(Collective::broadcast, data, data, options, root));
}

Work Communicator::reduce_async(BorrowedConstBuffer in, Buffer out, int root, Reduction reduction,
                                const CallOptions& options) {
  return state().start(make_call(Collective::reduce, in, out, options, root, std::move(reduction)), false);
}
void Communicator::reduce(ConstBuffer in, Buffer out, int root, Reduction reduction,
                          const CallOptions& options) {
  state().run(make_call(Collective::reduce, in, out, options, root, std::move(reduction)));
}

Work Communicator::scatter_async(BorrowedConstBuffer in, Buffer out, int root, const Counts& counts,
                                 const CallOptions& options) {
  return state().start(make_call(Collective::scatter, in, out, options, root), false, counts);
}
void Communicator::scatter(ConstBuffer in, Buffer out, int root, const Counts& counts,
                           const CallOptions& options) {
  state().run(make_call(Collective::scatter, in, out, options, root), counts);
}

Work Communicator::gather_async(BorrowedConstBuffer in, Buffer out, int root, const Counts& counts,
                                const CallOptions& options) {
  return state().start(make_call(Collective::gather, in, out, options, root), false, counts);
}
void Communicator::gather(ConstBuffer in, Buffer out, int root, const Counts& counts,
                          const CallOptions& options) {
  state().run(make_call(Collective::gather, in, out, options, root), counts);
}

Work Communicator::all_to_all_async(BorrowedConstBuffer in, Buffer out, const Counts& send_counts,
                                    const Counts& recv_counts, const CallOptions& options) {
  return state().start(make_call(Collective::all_to_all, in, out, options), false, send_counts, recv_counts);
}
void Communicator::all_to_all(ConstBuffer in, Buffer out, const Counts& send_counts,
                              const Counts& recv_counts, const CallOptions& options) {
  state().run(make_call(Collective::all_to_all, in, out, options), send_counts, recv_counts);
}
Work Communicator::all_to_all_async(Buffer data, const CallOptions& options) {
  return state().start(make_in_place_all_to_all(data, options), false);
}
void Communicator::all_to_all(Buffer data, const CallOptions& options) {
  state().run(make_in_place_all_to_all(data, options));
}

Work Communicator::scan_async(BorrowedConstBuffer in, Buffer out, Reduction reduction,
                              const CallOptions& options) {
  return state().start(make_call(Collective::scan, in, out, options, 0, std::move(reduction)), false);
}
void Communicator::scan(ConstBuffer in, Buffer out, Reduction reduction, const CallOptions& options) {
  state().run(make_call(Collective::scan, in, out, options, 0, std::move(reduction)));
}

Work Communicator::barrier_async(const CallOptions& options) {
  return state().start(make_call(Collective::barrier, {}, {}, options), false);
}
void Communicator::barrier(const CallOptions& options) {
  state().run(make_call(Collective::barrier, {}, {}, options));
}

Work Communicator::send_async(BorrowedConstBuffer data, int peer, int tag, std::chrono::nanoseconds timeout,
                              void* stream) {
  return state().start_message(State::Message::send, data, peer, tag, timeout, false, stream);
}
void Communicator::send(ConstBuffer data, int peer, int tag, std::chrono::nanoseconds timeout, void* stream) {
  state().start_message(State::Message::send, data, peer, tag, timeout, true, stream).wait();
}
Work Communicator::recv_async(Buffer data, int peer, int tag, std::chrono::nanoseconds timeout,
                              void* stream) {
  return state().start_message(State::Message::recv, data, peer, tag, timeout, false, stream);
}
void Communicator::recv(Buffer data, int peer, int tag, std::chrono::nanoseconds timeout, void* stream) {
  state().start_message(State::Message::recv, data, peer, tag, timeout, true, stream).wait();
}
Work Communicator::recv_any_async(Buffer data, int tag, std::chrono::nanoseconds timeout, void* stream) {
  return state().start_message(State::Message::recv_any, data, kAnyRank, tag, timeout, false, stream);
}
std::array<Work, 2> Communicator::sendrecv_async(BorrowedConstBuffer out, int to, Buffer in, int from,
                                                 int tag, std::chrono::nanoseconds timeout, void* stream) {
  State& own = state();
  own.check_message("sendrecv", out, to, tag, timeout);
  own.check_message("sendrecv", in, from, tag, timeout);
  const auto begin = [](const ConstBuffer& buffer) { return reinterpret_cast<std::uintptr_t>(buffer.data); };
  if (begin(out) < begin(in) + in.bytes() && begin(in) < begin(out) + out.bytes())
    own.refuse(comm::wrong("sendrecv", "`out` and `in` overlap"));
  const Work receive = own.start_message(State::Message::recv, in, from, tag, timeout, false, stream);
  return {own.start_message(State::Message::send, out, to, tag, timeout, false, stream), receive};
}
void Communicator::sendrecv(ConstBuffer out, int to, Buffer in, int from, int tag,
                            std::chrono::nanoseconds timeout, void* stream) {
  wait_all(sendrecv_async(out, to, in, from, tag, timeout, stream));
}
int Communicator::recv_any(Buffer data, int tag, std::chrono::nanoseconds timeout, void* stream) {
  const Work work =
      state().start_message(State::Message::recv_any, data, kAnyRank, tag, timeout, true, stream);
  work.wait();
  return work.source();
}

std::optional<ProbedMessage> Communicator::probe(int peer, int tag, std::chrono::nanoseconds timeout) {
  State& own = state();
  const Work work = own.start_message(State::Message::probe, {}, peer, tag, {}, true);
  const bool is_over = timeout.count() > 0 ? work.wait(timeout) : work.test();
  if (!is_over) own.engine->give_up(*work.operation_);
  work.wait();  // throws what has ended it meanwhile
  if (work.source() < 0) return std::nullopt;
  const transport::Signature& message = work.operation_->spec().signature;
  return ProbedMessage{work.source(), static_cast<DType>(message.dtype), message.count};
}
ProbedMessage Communicator::probe(int peer, int tag) {
  return probe(peer, tag, std::chrono::nanoseconds::max()).value();
}

void Communicator::abort(std::string_view reason) {
  comm::refuse_inside_reduction("abort");
  State& own = state();
  own.engine->fail(Code::aborted, fmt::format("aborted: {}", reason));
  const std::lock_guard lock(own.mutex);
  if (const auto ends = own.abort_of_shrink.lock()) *ends = reason;
}

void Communicator::set_label(std::string_view label, std::uint32_t number) {
  State& own = state();
  const std::lock_guard lock(own.mutex);
  own.label = label;
  own.label_number = number;
}

}  // namespace kolo
