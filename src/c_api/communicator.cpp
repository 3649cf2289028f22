// Communicators and memory.
#include <mutex>
#include <unordered_map>

#include "c_api/guard.hpp"
#include "kolo/arena.hpp"
#include "kolo/kolo.h"
#include "kolo/memory.hpp"

namespace kolo::c_api {
namespace {

Options options_of(const kolo_options* given_options) {
  if (given_options == nullptr) return {};
  const kolo_options options = read(given_options, "kolo_options");
  return {
      .timeout = time_of(options.timeout_ns),
      .transports = std::string(text_or_empty(options.transports)),
      .timeline = options.timeline == nullptr ? nullptr : known(options.timeline),
      .measure_costs = options.skip_measuring == 0,
      .key = std::string(text_or_empty(options.key)),
      .program = std::string(text_or_empty(options.program)),
      .process = std::string(text_or_empty(options.process)),
  };
}

RegroupOptions options_of(const kolo_regroup_options* given_options) {
  if (given_options == nullptr) return {};
  const kolo_regroup_options options = read(given_options, "kolo_regroup_options");
  const auto ended = list_of(options.ended, options.ended_count, "the list of ended ranks");
  RegroupOptions limits{.least = options.least, .most = options.most, .ended = {ended.begin(), ended.end()}};
  if (options.serve != nullptr) {
    limits.serve = [serve = options.serve, context = options.context]() -> std::shared_ptr<Store> {
      const OwnedHandle<kolo_store> handle(serve(context));
      return handle == nullptr ? nullptr : known(handle.get());
    };
  }
  return limits;
}

/// Makes a communicator out of another one; null if this rank is not in it.
template <typename Make>
kolo_status divide(const char* function, kolo_communicator** place, kolo_communicator* old,
                   Make make) noexcept {
  return guarded(function, old, [&] {
    given(place, "the place of the new communicator") = nullptr;
    auto handle = issue<kolo_communicator>({});
    known(handle.get()) = make(known(old));
    if (known(handle.get()).valid()) *place = handle.release();
  });
}

struct Blocks {
  std::mutex mutex;
  std::unordered_map<void*, std::shared_ptr<std::byte[]>> owners;
};

Blocks& blocks() {
  // Never destroyed: other threads may still use the memory when main() has ended.
  static Blocks& all = *new Blocks;
  return all;
}

}  // namespace
}  // namespace kolo::c_api

using namespace kolo::c_api;
using kolo::Communicator;

kolo_status kolo_create(kolo_communicator** communicator) {
  return make_handle(__func__, communicator, [] { return Communicator::create(); });
}
kolo_status kolo_create_with(const kolo_options* options, kolo_communicator** communicator) {
  return make_handle(__func__, communicator, [&] { return Communicator::create(options_of(options)); });
}
kolo_status kolo_create_in(kolo_store* store, int rank, int size, const kolo_options* options,
                           kolo_communicator** communicator) {
  return make_handle(__func__, communicator,
                     [&] { return Communicator::create(known(store), rank, size, options_of(options)); });
}
kolo_status kolo_join(kolo_store* store, const kolo_options* options, kolo_communicator** communicator) {
  return make_handle(__func__, communicator,
                     [&] { return Communicator::join(known(store), options_of(options)); });
}
kolo_status kolo_join_one_of(const char* const* stores, size_t count, const kolo_options* options,
                             kolo_communicator** communicator) {
  return make_handle(__func__, communicator, [&] {
    std::vector<std::string> urls;
    for (const char* url : list_of(stores, count, "the list of stores"))
      urls.emplace_back(text_or_empty(url));
    return Communicator::join(urls, options_of(options));
  });
}
kolo_status kolo_destroy(kolo_communicator* communicator) {
  return guarded(__func__, [&] {
    if (communicator != nullptr && retire(communicator) == nullptr)
      refuse_handle(Kind::communicator, communicator);
  });
}
int kolo_rank(const kolo_communicator* communicator) {
  return value_of(__func__, -1, [&] { return known(communicator).rank(); });
}
int kolo_size(const kolo_communicator* communicator) {
  return value_of(__func__, -1, [&] { return known(communicator).size(); });
}
int kolo_is_same(const kolo_communicator* left, const kolo_communicator* right) {
  return value_of(__func__, 0, [&] { return known(left) == known(right); });
}
const char* kolo_network(const kolo_communicator* communicator) {
  return text_of(__func__, [&] { return known(communicator).network(); });
}
const char* kolo_transport_to(const kolo_communicator* communicator, int peer) {
  return text_of(__func__, [&] { return known(communicator).transport_to(peer); });
}
kolo_status kolo_get_counters(const kolo_communicator* communicator, kolo_counters* counters) {
  return guarded(__func__, [&] {
    (void)read(counters, "kolo_counters");
    const kolo::Counters now = known(communicator).counters();
    write(counters,
          {0, now.bytes_sent, now.bytes_received, now.messages_sent, now.messages_received, now.operations});
  });
}
int64_t kolo_timeout(const kolo_communicator* communicator) {
  return value_of<int64_t>(__func__, -1, [&] { return known(communicator).timeout().count(); });
}
kolo_status kolo_set_timeout(kolo_communicator* communicator, int64_t timeout_ns) {
  return guarded(__func__, [&] { known(communicator).set_timeout(std::chrono::nanoseconds(timeout_ns)); });
}
kolo_status kolo_set_label(kolo_communicator* communicator, const char* label, uint32_t number) {
  return guarded(__func__, [&] { known(communicator).set_label(text_or_empty(label), number); });
}
kolo_status kolo_split(kolo_communicator* communicator, int color, int key, kolo_communicator** part) {
  return divide(__func__, part, communicator, [&](Communicator& old) { return old.split(color, key); });
}
kolo_status kolo_subgroup(kolo_communicator* communicator, const int* ranks, size_t count,
                          kolo_communicator** group) {
  return divide(__func__, group, communicator,
                [&](Communicator& old) { return old.subgroup(list_of(ranks, count, "the list of ranks")); });
}
kolo_status kolo_create_group(kolo_communicator* communicator, const int* ranks, size_t count,
                              kolo_communicator** group) {
  return divide(__func__, group, communicator, [&](Communicator& old) {
    return old.create_group(list_of(ranks, count, "the list of ranks"));
  });
}
kolo_status kolo_shrink(kolo_communicator* communicator, kolo_communicator** survivors) {
  return divide(__func__, survivors, communicator, [](Communicator& old) { return old.shrink(); });
}
kolo_status kolo_regroup(kolo_communicator* communicator, kolo_store* store,
                         const kolo_regroup_options* options, kolo_communicator** group) {
  return divide(__func__, group, communicator, [&](Communicator& old) {
    return old.regroup(store == nullptr ? nullptr : known(store), options_of(options));
  });
}
int kolo_has_newcomers(const kolo_communicator* communicator) {
  return value_of(__func__, 0, [&] { return known(communicator).has_newcomers(); });
}
kolo_status kolo_abort(kolo_communicator* communicator, const char* reason) {
  return guarded(__func__, [&] { known(communicator).abort(text_or_empty(reason)); });
}
void* kolo_allocate(size_t bytes) {
  return value_of<void*>(__func__, nullptr, [&] {
    auto block = kolo::SharedArena::instance().allocate(bytes);
    std::byte* const first = block.get();
    std::fill_n(first, bytes, std::byte{});
    const std::lock_guard lock(blocks().mutex);
    blocks().owners.emplace(first, std::move(block));
    return first;
  });
}
kolo_status kolo_free(void* memory) {
  return guarded(__func__, [&] {
    const std::lock_guard lock(blocks().mutex);
    if (blocks().owners.erase(memory) == 0 && memory != nullptr)
      throw Misuse("the memory is not of kolo_allocate(), or has been freed");
  });
}
int kolo_is_shared(const void* memory, size_t bytes) {
  return value_of(__func__, 0, [&] { return kolo::is_shared(memory, bytes); });
}
