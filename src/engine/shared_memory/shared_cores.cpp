// Arrival where ranks share cores: they count their arrivals in the first rank's slot, and the last one works
// for all or wakes its peers.
#include <cstring>

#include "engine/shared_memory/arrival.hpp"

namespace kolo::engine::shared_memory {
namespace {

/// The longest call that running ranks do for ranks that wait for a core. The sums of longer calls take
/// longer than the wait for a core.
constexpr std::uint64_t kSharesBytes = 1 << 20;

bool is_reduction_for_all(const Running& running) {
  return running.call.shape->form.kind == schedule::SharedMemoryForm::Kind::reduce_for_all;
}

/// Where the last rank to arrive puts the sums of a short call.
std::byte* result_of(const Running& running) {
  const bool fits = running.shown <= SliceCounters::kResultBytes;
  return fits ? running.call.counters->result : running.slot_of(0).data[running.call.place % kDescriptors];
}

class SharedCores final : public Arrival {
 public:
  /// All short data is copied, so that all ranks know which calls are short before they read the descriptors.
  SharedCores(int rank, int size, int cores)
      : Arrival(kDescriptorBytes), size_(size), cores_(cores), sums_(may_sum(rank)) {}

  /// No rank is woken before the last one has arrived.
  void announced(Running& running) const override {
    Call& call = running.call;
    call.counters = &call.slots.front()->shares[call.place % kDescriptors];
    call.cores = cores_;
    call.sums = sums_;
    call.shares = 0;
    const bool is_short = running.shown <= always_short;
    // The last rank does a short call for all, unless it does not sum. If it stops before it has, the other
    // ranks know which one to blame.
    call.set_at_work(true);
    const bool is_last = call.counters->arrive(call.place, static_cast<std::uint64_t>(size_));
    running.works_for_all = is_last && (sums_ || !is_summed_by_few(running));
    if (!running.works_for_all || !is_short) call.set_at_work(false);
    if (is_last && !(is_short && running.works_for_all)) {
      call.counters->open(call.place);
      call.wake(*call.counters, is_short);
    }
  }

  /// A rank that works for all, or reads other ranks' memory, looks at all descriptors. For any other rank it
  /// is enough that the call, or its first piece, is finished: the ranks that sum have looked.
  Announced poll(Running& running) const override {
    const SliceCounters& counters = *running.call.counters;
    if (running.works_for_all) return Arrival::poll(running);
    if (running.shown <= always_short) {
      if (counters.is_finished(running.call.place, 1)) return Announced::by_all;
      return take_short_call(running) ? Arrival::poll(running) : Announced::not_yet;
    }
    if (!counters.is_open(running.call.place)) return Announced::not_yet;
    const bool reads_sums_alone =
        !sums_ && running.state == Running::State::begun && is_summed_by_few(running);
    return reads_sums_alone ? Announced::by_all : Arrival::poll(running);
  }

  /// No rank but the one that works for all reads the contributions, so the sums may take the place of one of
  /// them.
  void finish_short(Running& running) const override {
    Call& call = running.call;
    const bool takes_result = is_reduction_for_all(running);
    if (running.works_for_all) {
      if (takes_result) {
        find_contributions(running);
        void* const sums = result_of(running);
        call.fold(&sums, 1, call.from.data(), call.from.size(), call.shape->count, call.from.size());
      }
      call.finish_share(*call.counters, call.place, 1);
      call.set_at_work(false);
    }
    if (!takes_result) return Arrival::finish_short(running);
    if (call.shape->bytes() > 0) std::memcpy(call.output, result_of(running), call.shape->bytes());
  }

  /// A running rank takes the next share. 0: each rank does its slice.
  void divide(Running& running) const override {
    const bool is_cut =
        running.call.shape->form.writes_to_others() && running.shown <= kSharesBytes && running.is_named();
    running.call.shares = is_cut ? share_count(running.shown) : 0;
  }

  Awaited awaited(const Running& running) const override {
    const bool waits_for_sums = running.shown <= always_short && !may_be_needed(running);
    const std::uint64_t open = SliceCounters::none_of(running.call.place);
    return running.lacking(*running.call.counters, open + (waits_for_sums ? 1 : 0));
  }

  /// One rank for each core sums, if they share it with many. If all ranks did, each of them would touch the
  /// pages of all ranks, and the first touch of a page is a fault. The ranks that sum are neither neighbours
  /// nor at equal distances, since launchers bind ranks to cores in blocks or in turns.
  bool may_sum(int rank) const override {
    if (!do_few_sum()) return true;
    const int each = size_ / cores_;
    const int core = rank / each;
    return core < cores_ && rank % each == core % each;
  }

  /// One of the ranks has not done the call for all yet, or none has begun to.
  void add_late(const Running& running, std::vector<int>& ranks) const override {
    const auto add = [&](auto is_late) {
      for (int r = 0; r < size_; ++r) {
        if (r != running.call.rank && is_late(r)) ranks.push_back(r);
      }
    };
    add([&](int r) { return running.is_work_of(r); });
    if (ranks.empty()) add([&](int r) { return may_sum(r); });
  }

 private:
  bool do_few_sum() const {
    constexpr int kManyOnACore = 8;
    return size_ >= kManyOnACore * cores_;
  }
  /// Whether only some of the ranks read what all of them contribute.
  bool is_summed_by_few(const Running& running) const {
    return do_few_sum() && is_reduction_for_all(running);
  }
  /// Whether this rank may still be needed to do a short call, which the last rank opens for that.
  bool may_be_needed(const Running& running) const {
    return sums_ && is_summed_by_few(running) && !running.call.counters->is_taken(running.call.place);
  }
  /// If the short call is open, this rank does it for all, unless another one does.
  bool take_short_call(Running& running) const {
    Call& call = running.call;
    if (!may_be_needed(running) || !call.counters->is_open(call.place)) return false;
    call.set_at_work(true);
    running.works_for_all = call.counters->take(call.place, 1).has_value();
    if (!running.works_for_all) call.set_at_work(false);
    return running.works_for_all;
  }

  const int size_;
  const int cores_;
  const bool sums_;  ///< this rank may sum for all
};

}  // namespace

std::unique_ptr<Arrival> Arrival::of_shared_cores(int rank, int size, int cores) {
  return std::make_unique<SharedCores>(rank, size, cores);
}

}  // namespace kolo::engine::shared_memory
