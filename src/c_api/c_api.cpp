// The C interface over the C++ interface: no exception leaves a function.
#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "kolo/arena.hpp"
#include "kolo/communicator.hpp"
#include "kolo/kolo.h"
#include "kolo/version.hpp"

struct kolo_communicator {
  kolo::Communicator communicator;
};

struct kolo_work {
  kolo::Work work;
};

namespace kolo::c_api {
namespace {

#define KOLO_ROW(name, NAME, ...) static_assert(static_cast<int>(DType::name) == KOLO_##NAME);
KOLO_ELEMENT_TYPES(KOLO_ROW)
#undef KOLO_ROW
#define KOLO_ROW(name, NAME, ...) static_assert(static_cast<int>(ReduceOp::name) == KOLO_##NAME);
KOLO_REDUCE_OPS(KOLO_ROW)
#undef KOLO_ROW

struct LastError {
  std::string message;
  int rank = -1;
};
thread_local LastError last_error;

kolo_status note(kolo_status status, const char* message, int rank) noexcept {
  last_error.rank = rank;
  try {
    last_error.message = message;
  } catch (const std::bad_alloc&) {
    last_error.message.clear();
  }
  return status;
}

kolo_status note_current() noexcept {
  const auto fail = [](kolo_status status, const Error& error) {
    return note(status, error.what(), error.context().peer);
  };
  try {
    throw;
  } catch (const InvalidArgumentError& error) {
    return fail(KOLO_INVALID_ARGUMENT, error);
  } catch (const MismatchError& error) {
    return fail(KOLO_MISMATCH, error);
  } catch (const PeerLostError& error) {
    return fail(KOLO_PEER_LOST, error);
  } catch (const TimeoutError& error) {
    return fail(KOLO_TIMED_OUT, error);
  } catch (const AbortedError& error) {
    return fail(KOLO_ABORTED, error);
  } catch (const RendezvousError& error) {
    return fail(KOLO_RENDEZVOUS_FAILED, error);
  } catch (const Error& error) {
    return fail(KOLO_SYSTEM_ERROR, error);
  } catch (const std::exception& error) {
    return note(KOLO_SYSTEM_ERROR, error.what(), -1);
  } catch (...) {
    return note(KOLO_SYSTEM_ERROR, "an exception of unknown type", -1);
  }
}

/// While it lives, pthread_cancel() waits: it would unwind the thread's stack out of locks that other threads
/// need, and ends the process where a function may not throw.
class NotCancelled {
 public:
  NotCancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() { pthread_setcancelstate(before_, nullptr); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_ = 0;
};

template <typename Call>
kolo_status guarded(Call call) noexcept {
  const NotCancelled not_cancelled;
  try {
    call();
    return KOLO_OK;
  } catch (...) {
    return note_current();
  }
}

template <typename T>
T& given(T* pointer, const char* name) {
  if (pointer == nullptr) throw InvalidArgumentError(std::string(name) + " is null", {});
  return *pointer;
}

DType type_of(kolo_dtype dtype) {
  if (dtype < 0 || dtype >= kDTypeCount)
    throw InvalidArgumentError("there is no kolo_dtype " + std::to_string(dtype), {});
  return static_cast<DType>(dtype);
}

ReduceOp operation_of(kolo_op op) {
  if (op < 0 || op >= kReduceOpCount)
    throw InvalidArgumentError("there is no kolo_op " + std::to_string(op), {});
  return static_cast<ReduceOp>(op);
}

/// The lengths of the ranks' parts: `counts`, or `count` for each.
class Parts {
 public:
  Parts(const Communicator& communicator, std::uint64_t count, const std::uint64_t* counts)
      : communicator_(communicator), count_(count) {
    if (counts != nullptr) counts_ = {counts, static_cast<std::size_t>(communicator.size())};
  }
  Counts counts() const noexcept { return counts_; }
  std::uint64_t own() const {
    return counts_.empty() ? count_ : counts_[static_cast<std::size_t>(communicator_.rank())];
  }
  std::uint64_t all() const {
    if (!counts_.empty()) return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
    return count_ * static_cast<std::uint64_t>(communicator_.size());
  }

 private:
  const Communicator& communicator_;
  std::uint64_t count_;
  std::span<const std::uint64_t> counts_;
};

/// Makes a call; it is blocking if there is no place for its work.
template <typename Start>
kolo_status run(kolo_communicator* communicator, kolo_work** work, Start start) noexcept {
  return guarded([&] {
    Communicator& known = given(communicator, "the communicator").communicator;
    if (work == nullptr) {
      (void)start(known, true);
      return;
    }
    *work = nullptr;
    auto started = std::make_unique<kolo_work>();
    started->work = start(known, false);
    *work = started.release();
  });
}

template <typename Make>
kolo_status make_from(kolo_communicator** result, kolo_communicator* old, Make make) noexcept {
  return guarded([&] {
    given(result, "the place of the new communicator") = nullptr;
    auto made = std::make_unique<kolo_communicator>();
    made->communicator = make(given(old, "the communicator").communicator);
    if (made->communicator.valid()) *result = made.release();
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
using kolo::Buffer;
using kolo::Communicator;
using kolo::ConstBuffer;
using kolo::Work;

// The blocking call, or the asynchronous one with the same arguments. (The blocking one is faster than to
// start and wait.)
#define KOLO_CALL(name, ...) (waits ? (group.name(__VA_ARGS__), Work()) : group.name##_async(__VA_ARGS__))

const char* kolo_version(void) {
  return kolo::version();
}

const char* kolo_error_message(void) {
  return last_error.message.c_str();
}

int kolo_error_rank(void) {
  return last_error.rank;
}

kolo_status kolo_create(kolo_communicator** communicator) {
  return guarded([&] {
    given(communicator, "the place of the new communicator") = nullptr;
    *communicator = new kolo_communicator{Communicator::create()};
  });
}

void kolo_destroy(kolo_communicator* communicator) {
  const NotCancelled not_cancelled;
  delete communicator;
}

int kolo_rank(const kolo_communicator* communicator) {
  return communicator == nullptr ? -1 : communicator->communicator.rank();
}

int kolo_size(const kolo_communicator* communicator) {
  return communicator == nullptr ? -1 : communicator->communicator.size();
}

kolo_status kolo_split(kolo_communicator* communicator, int color, int key, kolo_communicator** part) {
  return make_from(part, communicator, [&](Communicator& old) { return old.split(color, key); });
}

kolo_status kolo_shrink(kolo_communicator* communicator, kolo_communicator** survivors) {
  return make_from(survivors, communicator, [](Communicator& old) { return old.shrink(); });
}

kolo_status kolo_abort(kolo_communicator* communicator, const char* reason) {
  return guarded(
      [&] { given(communicator, "the communicator").communicator.abort(reason == nullptr ? "" : reason); });
}

void* kolo_allocate(size_t bytes) {
  void* memory = nullptr;
  guarded([&] {
    auto block = kolo::SharedArena::instance().allocate(bytes);
    std::byte* const first = block.get();
    std::fill_n(first, bytes, std::byte{});
    const std::lock_guard lock(blocks().mutex);
    blocks().owners.emplace(first, std::move(block));
    memory = first;
  });
  return memory;
}

void kolo_free(void* memory) {
  guarded([&] {
    const std::lock_guard lock(blocks().mutex);
    blocks().owners.erase(memory);
  });
}

kolo_status kolo_all_reduce(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                            kolo_dtype dtype, kolo_op op, kolo_work** work) {
  return run(communicator, work, [&](Communicator& group, bool waits) {
    const kolo::DType type = type_of(dtype);
    return KOLO_CALL(all_reduce, ConstBuffer(in, count, type), Buffer(out, count, type), operation_of(op));
  });
}

kolo_status kolo_scan(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                      kolo_dtype dtype, kolo_op op, kolo_work** work) {
  return run(communicator, work, [&](Communicator& group, bool waits) {
    const kolo::DType type = type_of(dtype);
    return KOLO_CALL(scan, ConstBuffer(in, count, type), Buffer(out, count, type), operation_of(op));
  });
}

kolo_status kolo_reduce_scatter(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                                const uint64_t* counts, kolo_dtype dtype, kolo_op op, kolo_work** work) {
  return run(communicator, work, [&](Communicator& group, bool waits) {
    const kolo::DType type = type_of(dtype);
    const Parts parts(group, count, counts);
    return KOLO_CALL(reduce_scatter, ConstBuffer(in, parts.all(), type), Buffer(out, parts.own(), type),
                     operation_of(op), parts.counts());
  });
}

kolo_status kolo_all_gather(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                            const uint64_t* counts, kolo_dtype dtype, kolo_work** work) {
  return run(communicator, work, [&](Communicator& group, bool waits) {
    const kolo::DType type = type_of(dtype);
    const Parts parts(group, count, counts);
    return KOLO_CALL(all_gather, ConstBuffer(in, parts.own(), type), Buffer(out, parts.all(), type),
                     parts.counts());
  });
}

kolo_status kolo_broadcast(kolo_communicator* communicator, void* data, uint64_t count, kolo_dtype dtype,
                           int root, kolo_work** work) {
  return run(communicator, work, [&](Communicator& group, bool waits) {
    return KOLO_CALL(broadcast, Buffer(data, count, type_of(dtype)), root);
  });
}

kolo_status kolo_reduce(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                        kolo_dtype dtype, kolo_op op, int root, kolo_work** work) {
  return run(communicator, work, [&](Communicator& group, bool waits) {
    const kolo::DType type = type_of(dtype);
    const std::uint64_t received = group.rank() == root ? count : 0;
    return KOLO_CALL(reduce, ConstBuffer(in, count, type),
                     Buffer(received == 0 ? nullptr : out, received, type), root, operation_of(op));
  });
}

kolo_status kolo_scatter(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                         const uint64_t* counts, kolo_dtype dtype, int root, kolo_work** work) {
  return run(communicator, work, [&](Communicator& group, bool waits) {
    const kolo::DType type = type_of(dtype);
    const Parts parts(group, count, counts);
    const ConstBuffer all =
        group.rank() == root ? ConstBuffer(in, parts.all(), type) : ConstBuffer(nullptr, 0, type);
    return KOLO_CALL(scatter, all, Buffer(out, parts.own(), type), root, parts.counts());
  });
}

kolo_status kolo_gather(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                        const uint64_t* counts, kolo_dtype dtype, int root, kolo_work** work) {
  return run(communicator, work, [&](Communicator& group, bool waits) {
    const kolo::DType type = type_of(dtype);
    const Parts parts(group, count, counts);
    const Buffer all = group.rank() == root ? Buffer(out, parts.all(), type) : Buffer(nullptr, 0, type);
    return KOLO_CALL(gather, ConstBuffer(in, parts.own(), type), all, root, parts.counts());
  });
}

kolo_status kolo_all_to_all(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                            const uint64_t* send_counts, const uint64_t* recv_counts, kolo_dtype dtype,
                            kolo_work** work) {
  return run(communicator, work, [&](Communicator& group, bool waits) {
    const kolo::DType type = type_of(dtype);
    const Parts sent(group, count, send_counts);
    const Parts received(group, count, recv_counts);
    const Buffer to(out, received.all(), type);
    if (in == out && send_counts == nullptr && recv_counts == nullptr) {
      return KOLO_CALL(all_to_all, to);
    }
    return KOLO_CALL(all_to_all, ConstBuffer(in, sent.all(), type), to, sent.counts(), received.counts());
  });
}

kolo_status kolo_barrier(kolo_communicator* communicator, kolo_work** work) {
  return run(communicator, work, [](Communicator& group, bool waits) { return KOLO_CALL(barrier); });
}

kolo_status kolo_send(kolo_communicator* communicator, const void* data, uint64_t count, kolo_dtype dtype,
                      int peer, int tag, kolo_work** work) {
  return run(communicator, work, [&](Communicator& group, bool waits) {
    return KOLO_CALL(send, ConstBuffer(data, count, type_of(dtype)), peer, tag);
  });
}

kolo_status kolo_recv(kolo_communicator* communicator, void* data, uint64_t count, kolo_dtype dtype, int peer,
                      int tag, kolo_work** work) {
  return run(communicator, work, [&](Communicator& group, bool waits) {
    return KOLO_CALL(recv, Buffer(data, count, type_of(dtype)), peer, tag);
  });
}

kolo_status kolo_recv_any(kolo_communicator* communicator, void* data, uint64_t count, kolo_dtype dtype,
                          int tag, int* source) {
  return guarded([&] {
    Communicator& group = given(communicator, "the communicator").communicator;
    const int rank = group.recv_any(Buffer(data, count, type_of(dtype)), tag);
    if (source != nullptr) *source = rank;
  });
}

kolo_status kolo_wait(kolo_work* work) {
  const std::unique_ptr<kolo_work> owned(work);
  if (!owned) return KOLO_OK;
  return guarded([&] { owned->work.wait(); });
}

kolo_status kolo_test(kolo_work* work, int* is_done) {
  return guarded([&] {
    int& done = given(is_done, "the place of is_done");
    done = 1;
    if (work == nullptr) return;
    try {
      done = work->work.test() ? 1 : 0;
    } catch (const kolo::Error&) {
      // kolo_wait() tells the error.
    }
  });
}
