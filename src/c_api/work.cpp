// Calls that were started.
#include <algorithm>
#include <vector>

#include "c_api/guard.hpp"
#include "kolo/kolo.h"

namespace kolo::c_api {
namespace {

/// The Work of a handle; null is one that is done.
const Work& work_of(const kolo_work* handle) {
  static const Work done;
  return handle == nullptr ? done : known(handle);
}

std::vector<Work> works_of(kolo_work* const* works, std::size_t count) {
  std::vector<Work> result;
  for (kolo_work* const handle : list_of(works, count, "the list of works"))
    result.push_back(work_of(handle));
  return result;
}

kolo_status outcome(const Work& work) noexcept {
  return guarded("kolo_then", [&] {
    if (work.error() != nullptr) std::rethrow_exception(work.error());
  });
}

/// Runs `wait`, which returns whether what it waits for is done. `is_done` also becomes 1 if that has failed.
template <typename IsDone, typename Wait>
void wait_as(int& is_done, IsDone all_done, Wait wait) {
  is_done = 0;
  try {
    is_done = wait() ? 1 : 0;
  } catch (const Error&) {
    is_done = all_done() ? 1 : 0;
    throw;
  }
}

}  // namespace
}  // namespace kolo::c_api

using namespace kolo::c_api;
using kolo::Work;

kolo_status kolo_wait(kolo_work* work) {
  return guarded(__func__, [&] {
    if (work == nullptr) return;
    const auto owned = retire(work);
    if (owned == nullptr) refuse_handle(Kind::work, work);
    owned->wait();
  });
}
kolo_status kolo_wait_for(kolo_work* work, int64_t timeout_ns, int* is_done) {
  return guarded(__func__, [&] {
    const Work& waited = work_of(work);
    const auto timeout = time_of(timeout_ns);
    wait_as(
        given(is_done, "the place of is_done"), [&] { return waited.done(); },
        [&] { return waited.wait(timeout); });
  });
}
kolo_status kolo_wait_any(kolo_work* const* works, size_t count, int64_t timeout_ns, size_t* index) {
  return guarded(__func__, [&] {
    const auto found = kolo::wait_any(works_of(works, count), time_of(timeout_ns));
    given(index, "the place of the index") = found.value_or(count);
  });
}
kolo_status kolo_wait_all(kolo_work* const* works, size_t count, int64_t timeout_ns, int* is_done) {
  int are_done = 0;
  const kolo_status status = guarded(__func__, [&] {
    const std::vector<Work> waited = works_of(works, count);
    const auto timeout = time_of(timeout_ns);
    wait_as(
        are_done, [&] { return std::ranges::all_of(waited, &Work::done); },
        [&] { return kolo::wait_all(waited, timeout); });
  });
  for (size_t i = 0; are_done != 0 && i < count; ++i) retire(works[i]);
  if (is_done != nullptr) *is_done = are_done;
  return status;
}
kolo_status kolo_test(kolo_work* work, int* is_done) {
  return guarded(__func__, [&] {
    const Work& tested = work_of(work);
    int& done = given(is_done, "the place of is_done");
    try {
      wait_as(
          done, [&] { return tested.done(); }, [&] { return tested.test(); });
    } catch (const kolo::Error&) {
      if (done == 0) throw;  // else kolo_wait() tells the error
    }
  });
}
int kolo_is_done(const kolo_work* work) {
  return value_of(__func__, -1, [&] { return work_of(work).done(); });
}
kolo_status kolo_then(kolo_work* work, kolo_callback callback, void* context) {
  return guarded(__func__, [&] {
    given(callback, "the callback");
    work_of(work).then([callback, context](const Work& done) {
      const auto handle = issue<kolo_work>(done);
      callback(context, handle.get(), outcome(done));
    });
  });
}
kolo_status kolo_order(kolo_work* work, void* stream) {
  return guarded(__func__, [&] { work_of(work).order(stream); });
}
kolo_status kolo_release(void* handle) {
  return guarded(__func__, [&] {
    if (handle != nullptr) release_handle(handle);
  });
}
int64_t kolo_duration(const kolo_work* work) {
  return value_of<int64_t>(__func__, -1, [&] { return work_of(work).duration().count(); });
}
const char* kolo_algorithm(const kolo_work* work) {
  return text_of(__func__, [&] { return work_of(work).algorithm(); });
}
int kolo_waiting_for(const kolo_work* work, int* ranks, size_t room) {
  return value_of(__func__, -1, [&] {
    const std::vector<int> awaited = work_of(work).waiting_for();
    std::copy_n(awaited.begin(), std::min(room, awaited.size()),
                list_of(ranks, room, "the list of ranks").begin());
    return static_cast<int>(awaited.size());
  });
}
int kolo_source(const kolo_work* work) {
  return value_of(__func__, -1, [&] { return work_of(work).source(); });
}
