// The implementation of kolo/call_batch.hpp.
#include "kolo/call_batch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/arithmetic.hpp"
#include "base/hash.hpp"
#include "base/reduction.hpp"
#include "comm/state.hpp"
#include "kernels/kernels.hpp"
#include "kernels/wire_format.hpp"

namespace kolo {
namespace {

using schedule::Collective;
using schedule::Parts;

// Longest call, in bytes of the whole data, for which the copies take less time than a call of its own.
constexpr std::uint64_t kMostOverLinks = 32 << 10;
constexpr std::uint64_t kMostInMemory = 4 << 10;
// Calls that are one: beyond so many bytes the next ones are copied while these are under way.
constexpr std::uint64_t kMostTogether = 4 << 20;
constexpr std::size_t kMostNumbered = 0x7fff;  // above comm::kBatchShift

constexpr std::size_t kAlone = ~std::size_t{0};

/// One call of a batch.
struct Entry {
  comm::Call call;  ///< of a message: what it sends or receives
  CallOptions options = {};
  comm::CheckedCall checked = {};
  std::size_t unit = kAlone;  ///< that it is part of
  int peer = 0, tag = 0;      ///< of a message
  bool sends = false;

  bool is_message() const { return call.collective == Collective::send_recv; }
};

/// A part of a call's data, and its place among those of the other calls.
struct Copy {
  void* to;
  const void* from;
  std::uint64_t count;  ///< elements
  const double* factor = nullptr;
};

/// The memory of calls that are one. An operation that uses it keeps it.
struct Packed {
  std::unique_ptr<std::byte[]> memory;
  std::size_t element = 1;
  std::vector<Copy> before = {}, after = {};

  void pack(DType dtype) const {
    for (const Copy& copy : before) {
      if (copy.factor == nullptr) {
        std::memcpy(copy.to, copy.from, copy.count * element);
      } else {
        const DefaultArithmetic arithmetic;
        kernels::scale_function(dtype)(copy.to, copy.from, copy.count, *copy.factor);
      }
    }
  }
  void unpack() const {
    for (const Copy& copy : after) std::memcpy(copy.to, copy.from, copy.count * element);
  }
};

/// Calls that are one.
struct Unit {
  schedule::CallKey kind;  ///< what they have in common
  CallOptions options = {};
  std::vector<std::size_t> members = {};  ///< their numbers
  std::uint64_t bytes = 0;
  std::shared_ptr<const Packed> packed = nullptr;
  comm::Call call = {};
  comm::CheckedCall checked = {};
};

schedule::CallKey kind_of(schedule::CallKey key) {
  key.count = 0;
  key.in_place = false;
  return key;
}

/// Adds the number of the call to what its check throws.
template <typename Check>
void check_numbered(std::size_t number, Check check) {
  try {
    check();
  } catch (const InvalidArgumentError& error) {
    throw InvalidArgumentError(fmt::format("call {} of the batch: {}", number, error.what()),
                               error.context());
  }
}

/// Elements of a call's data in one part of a buffer that has one for each rank; else of all.
std::uint64_t elements_of_part(const schedule::CallKey& key, int size) {
  const schedule::CollectiveTraits& traits = schedule::traits_of(key.collective);
  const bool is_divided = traits.input == Parts::per_rank || traits.output == Parts::per_rank;
  return is_divided ? key.count / static_cast<std::uint64_t>(size) : key.count;
}

}  // namespace

struct CallBatch::State {
  explicit State(Communicator c) : communicator(std::move(c)) {}

  Communicator communicator;
  std::vector<Entry> entries;
  std::vector<Unit> units;  ///< once the calls are planned
  bool is_planned = false;
  std::size_t last = 0;     ///< number of the collective that starts last
  std::vector<Work> works;  ///< of the last start()

  /// The parts lie one behind the other; a buffer with a part for each rank has all parts of rank 0 first.
  void join(Communicator::State& own, Unit& unit) const {
    const schedule::CollectiveTraits& traits = schedule::traits_of(unit.kind.collective);
    const bool is_root = own.rank == unit.kind.root;
    const bool has_in = traits.has_input(is_root), has_out = traits.has_output(is_root);
    const auto ranks = static_cast<std::uint64_t>(own.size), rank = static_cast<std::uint64_t>(own.rank);
    const std::uint64_t in_parts = traits.input == Parts::per_rank ? ranks : 1;
    const std::uint64_t out_parts = traits.output == Parts::per_rank ? ranks : 1;
    // A wire format may have a scale for each block: numbers of two calls do not share one.
    const std::uint64_t block = kernels::wire_format(unit.kind.wire).block;
    std::vector<std::uint64_t> places;
    std::uint64_t total = 0;
    for (const std::size_t member : unit.members) {
      places.push_back(total);
      total += (elements_of_part(entries[member].checked.key, own.size) + block - 1) / block * block;
    }
    const std::uint64_t in_count = has_in ? total * in_parts : 0;
    const std::uint64_t out_count = has_out ? total * out_parts : 0;
    // In place, as far as the collective may be: the smaller of the two is this rank's part of the larger.
    const bool is_apart = in_parts > 1 && out_parts > 1;
    auto packed = std::make_shared<Packed>();
    const std::size_t element = packed->element = size_of(unit.kind.dtype);
    const std::uint64_t all = is_apart ? in_count + out_count : std::max(in_count, out_count);
    packed->memory = block > 1 ? std::make_unique<std::byte[]>(all * element)
                               : std::make_unique_for_overwrite<std::byte[]>(all * element);
    const std::uint64_t own_part = has_in && has_out ? rank * total : 0;
    const std::uint64_t in_at = traits.input_within_output() ? own_part : 0;
    const std::uint64_t out_at = is_apart ? in_count : traits.output_within_input() ? own_part : 0;
    std::byte* const in = packed->memory.get() + in_at * element;
    std::byte* const out = packed->memory.get() + out_at * element;
    for (std::size_t i = 0; i < unit.members.size(); ++i) {
      const Entry& entry = entries[unit.members[i]];
      const std::uint64_t count = elements_of_part(entry.checked.key, own.size);
      if (count == 0) continue;
      for (std::uint64_t part = 0; has_in && part < in_parts; ++part) {
        packed->before.push_back({in + (part * total + places[i]) * element,
                                  static_cast<const std::byte*>(entry.call.in.data) + part * count * element,
                                  count, entry.call.reduction.factor()});
      }
      const bool is_unchanged =
          traits.placement == schedule::Placement::in_place && has_in && traits.has_root();
      for (std::uint64_t part = 0; has_out && !is_unchanged && part < out_parts; ++part) {
        packed->after.push_back({static_cast<std::byte*>(entry.call.out.data) + part * count * element,
                                 out + (part * total + places[i]) * element, count});
      }
    }
    unit.call = {.collective = unit.kind.collective,
                 .in = ConstBuffer(in, in_count, unit.kind.dtype),
                 .out = Buffer(out, out_count, unit.kind.dtype),
                 .root = unit.kind.root,
                 .reduction = unit.kind.op,
                 .options = &unit.options};
    unit.packed = std::move(packed);
  }

  /// Finds out how a unit runs, or throws what is wrong with its options.
  void prepare(Communicator::State& own, Unit& unit) const {
    schedule::CallKey& key = unit.checked.key;
    own.require(comm::check(unit.call, own.rank, own.size, {}, {}, key));
    own.apply(unit.options, key);
    unit.call.checked = &unit.checked;
    const std::lock_guard lock(own.mutex);
    auto prepared =
        std::make_shared<engine::PreparedCall>(own.plans.get(key, [&] { return own.prepare(key); }));
    transport::Signature& signature = prepared->signature;
    signature.root +=
        static_cast<std::int32_t>(std::min(unit.members.size(), kMostNumbered) << comm::kBatchShift);
    for (const std::size_t member : unit.members)
      signature.details = hash(signature.details, entries[member].checked.key.count);
    prepared->before_end = [packed = unit.packed.get()] {
      packed->unpack();
      return Status();
    };
    unit.checked.prepared = std::move(prepared);
  }

  /// Whether a call is better one with others. All ranks decide alike.
  bool is_short(const Communicator::State& own, const schedule::CallKey& key) const {
    const std::uint64_t most = own.group->team != nullptr ? kMostInMemory : kMostOverLinks;
    return own.size > 1 && !key.is_uneven() && !key.is_custom() && key.count * size_of(key.dtype) <= most;
  }

  /// Makes the entry part of a unit of its kind.
  void group(std::size_t number) {
    Entry& entry = entries[number];
    const schedule::CallKey kind = kind_of(entry.checked.key);
    const auto same = std::ranges::find_if(units, [&](const Unit& unit) {
      return unit.bytes < kMostTogether && unit.kind == kind &&
             unit.options.label == std::string_view(entry.options.label) &&
             unit.options.label_number == entry.options.label_number;
    });
    Unit& unit =
        same != units.end() ? *same : units.emplace_back(Unit{.kind = kind, .options = entry.options});
    entry.unit = static_cast<std::size_t>(&unit - units.data());
    unit.members.push_back(number);
    unit.bytes += entry.checked.key.count * size_of(entry.checked.key.dtype);
    const bool all_have_own = std::min(unit.options.timeout, entry.options.timeout).count() > 0;
    unit.options.timeout =
        all_have_own ? std::max(unit.options.timeout, entry.options.timeout) : std::chrono::nanoseconds(0);
  }

  /// Whether it is a collective that starts alone, or the first of its unit.
  bool is_started_at(std::size_t number) const {
    const Entry& entry = entries[number];
    return !entry.is_message() && (entry.unit == kAlone || units[entry.unit].members.front() == number);
  }

  void plan(Communicator::State& own) {
    units.clear();
    for (std::size_t number = 0; number < entries.size(); ++number) {
      entries[number].unit = kAlone;
      if (!entries[number].is_message() && is_short(own, entries[number].checked.key)) group(number);
    }
    for (Unit& unit : units) {
      if (unit.members.size() == 1) {
        entries[unit.members.front()].unit = kAlone;
        continue;
      }
      join(own, unit);
      check_numbered(unit.members.front(), [&] { prepare(own, unit); });
    }
    for (std::size_t number = 0; number < entries.size(); ++number) {
      const Entry& entry = entries[number];
      if (is_started_at(number)) last = number;
      if (entry.is_message() || entry.unit != kAlone || entry.options.algorithm.empty()) continue;
      const std::lock_guard lock(own.mutex);
      check_numbered(number, [&] {
        static_cast<void>(own.plans.get(entry.checked.key, [&] { return own.prepare(entry.checked.key); }));
      });
    }
    is_planned = true;
  }

  static Work start(Communicator::State& own, const Unit& unit, bool waits_now) {
    unit.packed->pack(unit.kind.dtype);
    comm::Call call = unit.call;
    call.reduction = reduction_that_keeps(unit.kind.op, unit.packed);
    Work work = own.start(std::move(call), waits_now);
    if (!work.valid()) unit.packed->unpack();
    return work;
  }

  /// `waits`: until all calls are over, or one has failed.
  void start(bool waits) {
    comm::refuse_inside_reduction("CallBatch::start");
    Communicator::State& own = communicator.state();
    if (!std::ranges::all_of(works, &Work::done)) {
      own.refuse(comm::wrong("CallBatch::start", "calls of the start before are still under way"));
    }
    own.with_memory([&] {
      if (!is_planned) plan(own);
      works.assign(entries.size(), Work());
    });
    for (const bool sends : {false, true}) {
      for (std::size_t i = 0; i < entries.size(); ++i) {
        const Entry& entry = entries[i];
        if (!entry.is_message() || entry.sends != sends) continue;
        using enum Communicator::State::Message;
        works[i] =
            own.start_message(sends ? send : recv, sends ? entry.call.in : ConstBuffer(entry.call.out),
                              entry.peer, entry.tag, entry.options.timeout, false, entry.options.stream);
      }
    }
    // In shared memory a blocking call takes less time than one of several that are under way.
    const bool waits_for_each = waits && own.group->team != nullptr;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Entry& entry = entries[i];
      if (entry.is_message()) continue;
      const bool waits_now = waits_for_each || (waits && i == last);
      if (!is_started_at(i)) {
        works[i] = works[units[entry.unit].members.front()];
        continue;
      }
      if (entry.unit != kAlone) {
        works[i] = start(own, units[entry.unit], waits_now);
      } else {
        comm::Call call = entry.call;
        call.options = &entry.options;
        call.checked = &entry.checked;
        works[i] = own.start(std::move(call), waits_now);
      }
      if (waits_for_each) works[i].wait();
    }
    if (waits) wait_all(works);
  }

  void add(comm::Call call, const CallOptions& options, comm::CountSpan counts = {},
           comm::CountSpan recv_counts = {}) {
    const Communicator::State& own = communicator.state();
    Entry entry{.call = std::move(call), .options = options};
    entry.call.options = &options;
    check_numbered(entries.size(), [&] {
      own.require(comm::check(entry.call, own.rank, own.size, counts, recv_counts, entry.checked.key));
      own.apply(options, entry.checked.key);
    });
    is_planned = false;
    entries.push_back(std::move(entry));
  }

  void add_message(bool sends, ConstBuffer in, Buffer out, int peer, int tag,
                   std::chrono::nanoseconds timeout, void* stream) {
    check_numbered(entries.size(), [&] {
      communicator.state().check_message(sends ? "send" : "recv", sends ? in : ConstBuffer(out), peer, tag,
                                         timeout);
    });
    is_planned = false;
    entries.push_back({.call = {.collective = Collective::send_recv, .in = in, .out = out},
                       .options = {.stream = stream, .timeout = timeout},
                       .peer = peer,
                       .tag = tag,
                       .sends = sends});
  }
};

CallBatch::CallBatch(Communicator communicator) : state_(std::make_unique<State>(std::move(communicator))) {
  static_cast<void>(state_->communicator.state());
}
CallBatch::CallBatch(CallBatch&&) noexcept = default;
CallBatch& CallBatch::operator=(CallBatch&&) noexcept = default;
CallBatch::~CallBatch() = default;

void CallBatch::all_reduce(Buffer data, Reduction reduction, const CallOptions& options) {
  all_reduce(data, data, std::move(reduction), options);
}
void CallBatch::all_reduce(BorrowedConstBuffer in, Buffer out, Reduction reduction,
                           const CallOptions& options) {
  state_->add({.collective = Collective::all_reduce, .in = in, .out = out, .reduction = std::move(reduction)},
              options);
}
void CallBatch::reduce_scatter(BorrowedConstBuffer in, Buffer out, Reduction reduction, const Counts& counts,
                               const CallOptions& options) {
  state_->add(
      {.collective = Collective::reduce_scatter, .in = in, .out = out, .reduction = std::move(reduction)},
      options, counts);
}
void CallBatch::all_gather(BorrowedConstBuffer in, Buffer out, const Counts& counts,
                           const CallOptions& options) {
  state_->add({.collective = Collective::all_gather, .in = in, .out = out}, options, counts);
}
void CallBatch::broadcast(Buffer data, int root, const CallOptions& options) {
  state_->add({.collective = Collective::broadcast, .in = data, .out = data, .root = root}, options);
}
void CallBatch::reduce(BorrowedConstBuffer in, Buffer out, int root, Reduction reduction,
                       const CallOptions& options) {
  state_->add({.collective = Collective::reduce,
               .in = in,
               .out = out,
               .root = root,
               .reduction = std::move(reduction)},
              options);
}
void CallBatch::scatter(BorrowedConstBuffer in, Buffer out, int root, const Counts& counts,
                        const CallOptions& options) {
  state_->add({.collective = Collective::scatter, .in = in, .out = out, .root = root}, options, counts);
}
void CallBatch::gather(BorrowedConstBuffer in, Buffer out, int root, const Counts& counts,
                       const CallOptions& options) {
  state_->add({.collective = Collective::gather, .in = in, .out = out, .root = root}, options, counts);
}
void CallBatch::all_to_all(BorrowedConstBuffer in, Buffer out, const Counts& send_counts,
                           const Counts& recv_counts, const CallOptions& options) {
  state_->add({.collective = Collective::all_to_all, .in = in, .out = out}, options, send_counts,
              recv_counts);
}
void CallBatch::all_to_all(Buffer data, const CallOptions& options) {
  state_->add({.collective = Collective::all_to_all, .in = data, .out = data, .one_buffer = true}, options);
}
void CallBatch::scan(BorrowedConstBuffer in, Buffer out, Reduction reduction, const CallOptions& options) {
  state_->add({.collective = Collective::scan, .in = in, .out = out, .reduction = std::move(reduction)},
              options);
}
void CallBatch::send(BorrowedConstBuffer data, int peer, int tag, std::chrono::nanoseconds timeout,
                     void* stream) {
  state_->add_message(true, data, {}, peer, tag, timeout, stream);
}
void CallBatch::recv(Buffer data, int peer, int tag, std::chrono::nanoseconds timeout, void* stream) {
  state_->add_message(false, {}, data, peer, tag, timeout, stream);
}

std::size_t CallBatch::size() const noexcept {
  return state_->entries.size();
}
void CallBatch::clear() noexcept {
  state_->entries.clear();
  state_->units.clear();
  state_->works.clear();
  state_->is_planned = false;
}

std::vector<Work> CallBatch::start() {
  state_->start(false);
  return state_->works;
}
void CallBatch::run() {
  state_->start(true);
}

}  // namespace kolo
