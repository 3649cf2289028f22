#include "device/fake_cuda.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kNotInitialized = 3, kInvalidDevice = 101,
              kInvalidContext = 201, kInvalidHandle = 400, kNotReady = 600;

int device_count() {
  const char* text = std::getenv("FAKE_CUDA_DEVICES");
  return text != nullptr ? std::atoi(text) : 2;
}

struct Allocation {
  std::size_t bytes;
  int device;
  bool is_managed;
  std::byte* inside;  ///< the same memory, which the fake may touch
};

struct FakeContext {
  int device;
  int retained = 0;
};

struct FakeEvent {
  std::uint64_t recorded = 0, reached = 0;
};

struct FakeStream {
  int device;
  std::deque<std::function<void()>> work;
  bool is_busy = false, ends = false;
  std::thread thread;
};

/// All state, under one lock.
struct Fake {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_initialized = false;
  std::map<std::uintptr_t, Allocation> allocations;
  std::map<std::uintptr_t, std::size_t> regions;
  std::vector<FakeContext> contexts = std::vector<FakeContext>(8);
  std::map<FakeStream*, std::unique_ptr<FakeStream>> streams;
  std::map<FakeEvent*, std::shared_ptr<FakeEvent>> events;
  std::vector<FakeStream*> default_streams = std::vector<FakeStream*>(8);
  std::string failing, failed;
  int fails_at = 0, fails_with = 0, seen = 0, calls = 0;
  int most_us = 0, unregistered_copies = 0;
  std::mt19937 random{1};
  bool forgets_records = false;

  /// What waits on a stream ends then.
  std::atomic<bool> has_failed = false;
};

Fake& fake() {
  static auto* const one = new Fake;
  return *one;
}

thread_local std::vector<FakeContext*> current;

/// The code that a test wants a function's call to have.
int enter(const char* function) {
  Fake& f = fake();
  std::unique_lock lock(f.mutex);
  ++f.calls;
  if (f.fails_at == 0 || (!f.failing.empty() && f.failing != function)) return kSuccess;
  if (++f.seen < f.fails_at) return kSuccess;
  if (f.failed.empty()) f.failed = function;
  f.has_failed = true;
  f.changed.notify_all();
  // A device that has failed does nothing more.
  f.changed.wait(lock, [&] {
    return std::ranges::none_of(f.streams, [](const auto& one) { return one.second->is_busy; });
  });
  for (const auto& [handle, stream] : f.streams) stream->work.clear();
  return f.fails_with;
}

#define ENTER() \
  if (const int code = enter(__func__); code != kSuccess) return code

/// The allocation that has all of it; null if none has.
Allocation* find(std::uintptr_t begin, std::size_t bytes, std::uintptr_t* start = nullptr) {
  auto& all = fake().allocations;
  auto next = all.upper_bound(begin);
  if (next == all.begin()) return nullptr;
  --next;
  if (begin + bytes > next->first + next->second.bytes || begin >= next->first + next->second.bytes)
    return nullptr;
  if (start != nullptr) *start = next->first;
  return &next->second;
}

std::byte* inside(std::uintptr_t begin, std::size_t bytes) {
  std::uintptr_t start = 0;
  Allocation* const found = find(begin, bytes, &start);
  return found == nullptr ? nullptr : found->inside + (begin - start);
}

bool is_registered(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return std::ranges::any_of(fake().regions, [&](const auto& region) {
    return region.first <= begin && begin + bytes <= region.first + region.second;
  });
}

void run(FakeStream* stream) {
  Fake& f = fake();
  std::unique_lock lock(f.mutex);
  while (true) {
    f.changed.wait(lock, [&] { return stream->ends || !stream->work.empty(); });
    if (stream->work.empty()) return;
    const auto next = std::move(stream->work.front());
    stream->work.pop_front();
    stream->is_busy = true;
    const int delay = f.most_us > 0 ? static_cast<int>(f.random() % static_cast<unsigned>(f.most_us)) : 0;
    lock.unlock();
    if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
    next();
    lock.lock();
    stream->is_busy = false;
    f.changed.notify_all();
  }
}

FakeStream* make_stream(int device) {
  auto made = std::make_unique<FakeStream>();
  made->device = device;
  FakeStream* const stream = made.get();
  stream->thread = std::thread(run, stream);
  fake().streams.emplace(stream, std::move(made));
  return stream;
}

/// Under the lock. Null: the default stream of the current context.
FakeStream* stream_of(void* handle) {
  if (handle != nullptr) {
    const auto found = fake().streams.find(static_cast<FakeStream*>(handle));
    return found == fake().streams.end() ? nullptr : found->first;
  }
  if (current.empty()) return nullptr;
  FakeStream*& stream = fake().default_streams[static_cast<std::size_t>(current.back()->device)];
  if (stream == nullptr) stream = make_stream(current.back()->device);
  return stream;
}

int put(void* handle, std::function<void()> work) {
  Fake& f = fake();
  FakeStream* const stream = stream_of(handle);
  if (stream == nullptr) return current.empty() ? kInvalidContext : kInvalidHandle;
  stream->work.push_back(std::move(work));
  f.changed.notify_all();
  return kSuccess;
}

int copy(unsigned long long device, void* host, std::size_t bytes, void* stream, bool to_host) {
  Fake& f = fake();
  const std::lock_guard lock(f.mutex);
  if (current.empty()) return kInvalidContext;
  std::byte* const there = inside(device, bytes);
  // The real driver tells neither which memory is wrong nor why.
  if (there == nullptr || find(reinterpret_cast<std::uintptr_t>(host), 1) != nullptr) return kInvalidValue;
  if (!is_registered(host, bytes)) ++f.unregistered_copies;
  return put(stream, [=] { to_host ? std::memcpy(host, there, bytes) : std::memcpy(there, host, bytes); });
}

void* allocate(int device, std::size_t bytes, bool is_managed) {
  Fake& f = fake();
  const std::lock_guard lock(f.mutex);
  if (device < 0 || device >= device_count()) return nullptr;
  const int file = ::memfd_create("fake device", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) std::abort();
  void* const outside =
      ::mmap(nullptr, bytes, is_managed ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, file, 0);
  void* const own = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (outside == MAP_FAILED || own == MAP_FAILED) std::abort();
  f.allocations[reinterpret_cast<std::uintptr_t>(outside)] = {bytes, device, is_managed,
                                                              static_cast<std::byte*>(own)};
  return outside;
}

std::uintptr_t address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

}  // namespace

extern "C" {

void* fake_cuda_allocate(int device, std::size_t bytes) {
  return allocate(device, bytes, false);
}
void* fake_cuda_allocate_managed(int device, std::size_t bytes) {
  return allocate(device, bytes, true);
}
void fake_cuda_free(void* memory) {
  Fake& f = fake();
  std::unique_lock lock(f.mutex);
  f.changed.wait(lock, [&] {
    return std::ranges::all_of(
        f.streams, [](const auto& one) { return one.second->work.empty() && !one.second->is_busy; });
  });
  const auto found = f.allocations.find(address(memory));
  if (found == f.allocations.end()) std::abort();
  ::munmap(memory, found->second.bytes);
  ::munmap(found->second.inside, found->second.bytes);
  f.allocations.erase(found);
}
void* fake_cuda_inside(void* memory) {
  const std::lock_guard lock(fake().mutex);
  return inside(address(memory), 1);
}
void fake_cuda_write_on(void* stream, void* to, const void* from, std::size_t bytes, int delay_us) {
  const std::lock_guard lock(fake().mutex);
  const auto* const begin = static_cast<const std::byte*>(from);
  std::byte* const there = inside(address(to), bytes);
  if (put(stream, [data = std::vector<std::byte>(begin, begin + bytes), there, delay_us] {
        std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
        std::memcpy(there, data.data(), data.size());
      }) != kSuccess)
    std::abort();
}

void fake_cuda_read_on(void* stream, void* to, const void* from, std::size_t bytes) {
  const std::lock_guard lock(fake().mutex);
  const std::byte* const there = inside(address(from), bytes);
  if (put(stream, [=] { std::memcpy(to, there, bytes); }) != kSuccess) std::abort();
}

void fake_cuda_fail(const char* function, int number, int code) {
  Fake& f = fake();
  const std::lock_guard lock(f.mutex);
  f.failing = function;
  f.fails_at = number;
  f.fails_with = code;
  f.seen = f.calls = 0;
  f.failed.clear();
  f.has_failed = false;
}
int fake_cuda_calls() {
  const std::lock_guard lock(fake().mutex);
  return fake().calls;
}
int fake_cuda_enter(const char* function) {
  return enter(function);
}
bool fake_cuda_has_failed() {
  return fake().has_failed;
}
bool fake_cuda_put(void* stream, void (*work)(void*), void* argument, void (*drop)(void*)) {
  const std::shared_ptr<void> own(argument, drop);
  const std::lock_guard lock(fake().mutex);
  return put(stream, [=] { work(own.get()); }) == kSuccess;
}
const char* fake_cuda_failed() {
  return fake().failed.c_str();
}
void fake_cuda_delay(int most_us, unsigned seed) {
  const std::lock_guard lock(fake().mutex);
  fake().most_us = most_us;
  fake().random.seed(seed);
}
void fake_cuda_forget_records(bool forgets) {
  const std::lock_guard lock(fake().mutex);
  fake().forgets_records = forgets;
}
FakeCudaCounts fake_cuda_counts() {
  Fake& f = fake();
  const std::lock_guard lock(f.mutex);
  int contexts = 0;
  for (const FakeContext& one : f.contexts) contexts += one.retained;
  const auto defaults =
      std::ranges::count_if(f.default_streams, [](const auto* one) { return one != nullptr; });
  return {static_cast<int>(f.streams.size()) - static_cast<int>(defaults), static_cast<int>(f.events.size()),
          static_cast<int>(f.regions.size()), contexts, static_cast<int>(f.allocations.size())};
}
int fake_cuda_unregistered_copies() {
  const std::lock_guard lock(fake().mutex);
  return fake().unregistered_copies;
}

int cuInit(unsigned) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  if (device_count() == 0) return 100;  // CUDA_ERROR_NO_DEVICE
  for (int i = 0; i < 8; ++i) fake().contexts[static_cast<std::size_t>(i)].device = i;
  fake().is_initialized = true;
  return kSuccess;
}
int cuGetErrorName(int code, const char** text) {
  *text = code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_FAKE";
  return kSuccess;
}
int cuGetErrorString(int code, const char** text) {
  *text = code == 719 ? "unspecified launch failure" : "an error that a test wants";
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  ENTER();
  if (!fake().is_initialized) return kNotInitialized;
  *count = device_count();
  return kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
  ENTER();
  if (ordinal < 0 || ordinal >= device_count()) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}
int cuDeviceGetName(char* name, int length, int) {
  ENTER();
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
  return kSuccess;
}
int cuDeviceGetUuid_v2(char* uuid, int device) {
  ENTER();
  std::memset(uuid, device + 1, 16);
  return kSuccess;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  FakeContext& one = fake().contexts[static_cast<std::size_t>(device)];
  ++one.retained;
  *context = &one;
  return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  --fake().contexts[static_cast<std::size_t>(device)].retained;
  return kSuccess;
}
int cuCtxPushCurrent_v2(void* context) {
  ENTER();
  if (context == nullptr) return kInvalidContext;
  current.push_back(static_cast<FakeContext*>(context));
  return kSuccess;
}
int cuCtxPopCurrent_v2(void** context) {
  if (current.empty()) return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}
int cuStreamCreate(void** stream, unsigned) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  if (current.empty()) return kInvalidContext;
  *stream = make_stream(current.back()->device);
  return kSuccess;
}
int cuStreamDestroy_v2(void* handle) {
  Fake& f = fake();
  std::unique_lock lock(f.mutex);
  FakeStream* const stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  stream->ends = true;
  f.changed.notify_all();
  lock.unlock();
  stream->thread.join();
  lock.lock();
  f.streams.erase(stream);
  return kSuccess;
}
int cuStreamSynchronize(void* handle) {
  ENTER();
  Fake& f = fake();
  std::unique_lock lock(f.mutex);
  FakeStream* const stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  f.changed.wait(lock, [&] { return stream->work.empty() && !stream->is_busy; });
  return kSuccess;
}
int cuStreamGetCtx(void* handle, void** context) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  FakeStream* const stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  *context = &fake().contexts[static_cast<std::size_t>(stream->device)];
  return kSuccess;
}
int cuEventCreate(void** event, unsigned) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  if (current.empty()) return kInvalidContext;
  auto made = std::make_shared<FakeEvent>();
  *event = made.get();
  fake().events.emplace(made.get(), std::move(made));
  return kSuccess;
}
int cuEventDestroy_v2(void* event) {
  const std::lock_guard lock(fake().mutex);
  return fake().events.erase(static_cast<FakeEvent*>(event)) == 1 ? kSuccess : kInvalidHandle;
}
int cuEventRecord(void* event, void* stream) {
  ENTER();
  Fake& f = fake();
  const std::lock_guard lock(f.mutex);
  const auto found = f.events.find(static_cast<FakeEvent*>(event));
  if (found == f.events.end()) return kInvalidHandle;
  if (f.forgets_records) return kSuccess;
  const std::uint64_t number = ++found->second->recorded;
  return put(stream, [one = found->second, number] {
    const std::lock_guard lock(fake().mutex);
    one->reached = std::max(one->reached, number);
    fake().changed.notify_all();
  });
}
int cuEventQuery(void* event) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  const auto found = fake().events.find(static_cast<FakeEvent*>(event));
  if (found == fake().events.end()) return kInvalidHandle;
  return found->second->reached >= found->second->recorded ? kSuccess : kNotReady;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  ENTER();
  Fake& f = fake();
  const std::lock_guard lock(f.mutex);
  const auto found = f.events.find(static_cast<FakeEvent*>(event));
  if (found == f.events.end()) return kInvalidHandle;
  return put(stream, [one = found->second, number = found->second->recorded] {
    std::unique_lock own(fake().mutex);
    fake().changed.wait(own, [&] { return one->reached >= number || fake().has_failed; });
  });
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t bytes, void* stream) {
  ENTER();
  return copy(from, to, bytes, stream, true);
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, std::size_t bytes, void* stream) {
  ENTER();
  return copy(to, const_cast<void*>(from), bytes, stream, false);
}
int cuMemAlloc_v2(unsigned long long* memory, std::size_t bytes) {
  ENTER();
  if (current.empty()) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  *memory = address(allocate(current.back()->device, bytes, false));
  return kSuccess;
}
int cuMemFree_v2(unsigned long long memory) {
  fake_cuda_free(reinterpret_cast<void*>(memory));
  return kSuccess;
}
int cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  if (bytes == 0 || is_registered(memory, 1)) return kInvalidValue;
  fake().regions[address(memory)] = bytes;
  return kSuccess;
}
int cuMemHostUnregister(void* memory) {
  const std::lock_guard lock(fake().mutex);
  return fake().regions.erase(address(memory)) == 1 ? kSuccess : kInvalidValue;
}
int cuPointerGetAttributes(unsigned count, const int* attributes, void** values, unsigned long long begin) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  std::uintptr_t start = 0;
  const Allocation* const found = find(begin, 1, &start);
  for (unsigned i = 0; i < count && found != nullptr; ++i) {
    if (attributes[i] == 2) *static_cast<int*>(values[i]) = 2;
    if (attributes[i] == 8) *static_cast<unsigned*>(values[i]) = found->is_managed ? 1 : 0;
    if (attributes[i] == 9) *static_cast<int*>(values[i]) = found->device;
    if (attributes[i] == 11) *static_cast<unsigned long long*>(values[i]) = start;
    if (attributes[i] == 12) *static_cast<std::size_t*>(values[i]) = found->bytes;
  }
  return kSuccess;
}
}
