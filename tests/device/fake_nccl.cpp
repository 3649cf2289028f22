#include "device/fake_nccl.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/fake_cuda.hpp"
#include "kolo/dtype.hpp"

namespace {

constexpr int kSuccess = 0, kUnhandledCudaError = 1, kInvalidArgument = 4, kInvalidUsage = 5, kInProgress = 7;
constexpr int kFirstFactor = 5;  // operations from here on are premultiplied sums

struct Id {
  char bytes[128];
};

/// Ids begin with it.
std::string process() {
  return std::to_string(::getpid()) + "/";
}

struct Mail {
  const std::byte* data;  ///< null: the sender has aborted
  std::size_t bytes;
  bool is_taken = false;
};

/// What the ranks of one communicator have together.
struct Meeting {
  int size = 0;
  int joined = 0;
  struct Call {
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    std::vector<double> factors;  ///< by which the contributions are multiplied
    int arrived = 0, left = 0;
    bool is_over = false;
    bool is_left = false;  ///< by a rank that has aborted: never over
  };
  std::map<std::uint64_t, Call> calls;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Mail>>> mail;  ///< by sender and receiver
};

/// ncclComm_t: one rank. Kernels on streams keep it alive.
struct Rank {
  std::shared_ptr<Meeting> meeting;
  int rank = 0;
  std::uint64_t calls = 0;
  int kernels = 0;  ///< on streams
  bool is_aborted = false;
  std::map<int, double> factors;
};

/// All state, under one lock.
struct Fake {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<Meeting>> meetings;
  std::map<Rank*, std::shared_ptr<Rank>> ranks;
  int ids = 0, aborts = 0, error = 0;
  bool hangs = false;
};

Fake& fake() {
  static auto* const one = new Fake;
  return *one;
}

/// Part of a kernel: runs on a stream, with the lock.
using Part = std::function<void(std::unique_lock<std::mutex>&, Rank&)>;

struct Kernel {
  std::shared_ptr<Rank> rank;
  std::array<std::vector<Part>, 3> stages;
};

/// What a thread has called since ncclGroupStart().
struct Pending {
  int depth = 0;
  std::array<std::vector<Part>, 3> stages;
  Rank* rank = nullptr;
  void* stream = nullptr;
};
thread_local Pending pending;

#define ENTER()                                \
  if (fake_cuda_enter(__func__) != kSuccess) { \
    pending.stages = {};                       \
    pending.rank = nullptr;                    \
    return kUnhandledCudaError;                \
  }

bool wait(std::unique_lock<std::mutex>& lock, Rank& rank, const std::function<bool()>& is_there) {
  // A device that has failed does not tell this library.
  const auto ends = [&] {
    return rank.is_aborted || fake_cuda_has_failed() || (is_there() && !fake().hangs);
  };
  while (!ends()) fake().changed.wait_for(lock, std::chrono::milliseconds(1));
  return !rank.is_aborted && is_there();
}

void run_kernel(void* argument) {
  const Kernel& kernel = *static_cast<Kernel*>(argument);
  std::unique_lock lock(fake().mutex);
  for (const auto& stage : kernel.stages)
    for (const Part& part : stage)
      if (!kernel.rank->is_aborted) part(lock, *kernel.rank);
  --kernel.rank->kernels;
  fake().changed.notify_all();
}

/// Under the lock.
int launch() {
  Pending all = std::exchange(pending, {});
  if (all.rank == nullptr) return kSuccess;
  auto kernel = std::make_unique<Kernel>();
  kernel->rank = fake().ranks.at(all.rank);
  kernel->stages = std::move(all.stages);
  ++kernel->rank->kernels;
  const auto drop = [](void* one) { delete static_cast<Kernel*>(one); };
  return fake_cuda_put(all.stream, run_kernel, kernel.release(), drop) ? kInProgress : kInvalidArgument;
}

/// All parts of a group's first stage run before those of the second one, and so on.
int add(Rank* rank, void* stream, std::array<Part, 3> parts) {
  const std::lock_guard lock(fake().mutex);
  if (!fake().ranks.contains(rank)) return kInvalidArgument;
  if (pending.rank != nullptr && pending.rank != rank) return kInvalidUsage;
  pending.rank = rank;
  pending.stream = stream;
  for (std::size_t stage = 0; stage < parts.size(); ++stage)
    if (parts[stage]) pending.stages[stage].push_back(std::move(parts[stage]));
  return pending.depth == 0 ? launch() : kSuccess;
}

const std::byte* inside(const void* data) {
  return static_cast<const std::byte*>(fake_cuda_inside(const_cast<void*>(data)));
}
std::byte* inside(void* data) {
  return static_cast<std::byte*>(fake_cuda_inside(data));
}

/// A call of all ranks: the last one to arrive does the work.
int meet(Rank* rank, void* stream, const void* in, void* out,
         const std::function<void(const Meeting::Call&)>& work, double factor = 1) {
  const std::byte* const from = in == nullptr ? nullptr : inside(in);
  std::byte* const to = out == nullptr ? nullptr : inside(out);
  if ((in != nullptr && from == nullptr) || (out != nullptr && to == nullptr)) return kInvalidArgument;
  const Part part = [=](std::unique_lock<std::mutex>& lock, Rank& self) {
    Meeting& meeting = *self.meeting;
    const std::uint64_t number = self.calls++;
    Meeting::Call& call = meeting.calls[number];
    call.in.resize(static_cast<std::size_t>(meeting.size));
    call.out.resize(call.in.size());
    call.factors.resize(call.in.size());
    call.in[static_cast<std::size_t>(self.rank)] = from;
    call.out[static_cast<std::size_t>(self.rank)] = to;
    call.factors[static_cast<std::size_t>(self.rank)] = factor;
    if (++call.arrived == meeting.size && !call.is_left) {
      work(call);
      call.is_over = true;
      fake().changed.notify_all();
    }
    if (!wait(lock, self, [&] { return call.is_over; })) call.is_left = true;
    if (++call.left == meeting.size) meeting.calls.erase(number);
  };
  return add(rank, stream, {part, Part(), Part()});
}

std::size_t size_of(int type) {
  constexpr std::size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kSizes[type];
}

template <typename T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

long double load(const std::byte* from, int type) {
  switch (type) {
    case 0:
      return read<std::int8_t>(from);
    case 1:
      return read<std::uint8_t>(from);
    case 2:
      return read<std::int32_t>(from);
    case 3:
      return read<std::uint32_t>(from);
    case 4:
      return read<std::int64_t>(from);
    case 5:
      return read<std::uint64_t>(from);
    case 6:
      return kolo::to_float(read<kolo::Float16>(from));
    case 7:
      return read<float>(from);
    case 8:
      return read<double>(from);
    default:
      return kolo::to_float(read<kolo::BFloat16>(from));
  }
}

template <typename T>
void write(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void store(std::byte* to, int type, long double value) {
  switch (type) {
    case 0:
      return write(to, static_cast<std::int8_t>(static_cast<std::int64_t>(value)));
    case 1:
      return write(to, static_cast<std::uint8_t>(static_cast<std::int64_t>(value)));
    case 2:
      return write(to, static_cast<std::int32_t>(static_cast<std::int64_t>(value)));
    case 3:
      return write(to, static_cast<std::uint32_t>(static_cast<std::int64_t>(value)));
    case 4:
      return write(to, static_cast<std::int64_t>(value));
    case 5:
      return write(to, static_cast<std::uint64_t>(value));
    case 6:
      return write(to, kolo::to_float16(static_cast<float>(value)));
    case 7:
      return write(to, static_cast<float>(value));
    case 8:
      return write(to, static_cast<double>(value));
    default:
      return write(to, kolo::to_bfloat16(static_cast<float>(value)));
  }
}

long double combine(const Meeting::Call& call, std::size_t offset, int type, int op) {
  long double result = load(call.in[0] + offset, type) * call.factors[0];
  for (std::size_t r = 1; r < call.in.size(); ++r) {
    const long double value = load(call.in[r] + offset, type) * call.factors[r];
    if (op == 1) {
      result *= value;
    } else if (op == 2) {
      result = std::max(result, value);
    } else if (op == 3) {
      result = std::min(result, value);
    } else {
      result += value;
    }
  }
  return op == 4 ? result / static_cast<long double>(call.in.size()) : result;
}

/// `count` elements for each rank that has an output. `is_scattered`: other ones for each rank.
int reduce_all(Rank* rank, void* stream, const void* in, void* out, std::size_t count, int type, int op,
               bool is_scattered) {
  double factor = 1;
  if (op >= kFirstFactor) {
    const std::lock_guard lock(fake().mutex);
    if (!fake().ranks.contains(rank) || !rank->factors.contains(op)) return kInvalidArgument;
    factor = rank->factors.at(op);
  }
  const auto work = [=](const Meeting::Call& call) {
    const std::size_t size = size_of(type);
    std::vector<std::byte> result(size);
    for (std::size_t r = 0; r < (is_scattered ? call.out.size() : 1); ++r) {
      for (std::size_t i = 0; i < count; ++i) {
        store(result.data(), type, combine(call, (r * count + i) * size, type, op));
        for (std::size_t to = 0; to < call.out.size(); ++to) {
          if ((is_scattered && to != r) || call.out[to] == nullptr) continue;
          std::memcpy(call.out[to] + i * size, result.data(), size);
        }
      }
    }
  };
  return meet(rank, stream, in, out, work, factor);
}

}  // namespace

extern "C" {

int fake_nccl_communicators() {
  const std::lock_guard lock(fake().mutex);
  return static_cast<int>(fake().ranks.size());
}
int fake_nccl_aborts() {
  const std::lock_guard lock(fake().mutex);
  return fake().aborts;
}
void fake_nccl_hang(bool hangs) {
  const std::lock_guard lock(fake().mutex);
  fake().hangs = hangs;
}
void fake_nccl_break(int code) {
  const std::lock_guard lock(fake().mutex);
  fake().error = code;
}

int ncclGetVersion(int* version) {
  const char* const text = std::getenv("FAKE_NCCL_VERSION");
  *version = text != nullptr ? std::atoi(text) : 22809;
  return kSuccess;
}
const char* ncclGetErrorString(int code) {
  return code == kUnhandledCudaError ? "unhandled cuda error" : "an error of NCCL";
}
const char* ncclGetLastError(void*) {
  return !fake_cuda_has_failed() ? "" : "unspecified launch failure";
}
int ncclGetUniqueId(Id* id) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  std::memset(id->bytes, 0, sizeof id->bytes);
  const std::string text = process() + std::to_string(++fake().ids);
  std::memcpy(id->bytes, text.data(), text.size());
  return kSuccess;
}
int ncclCommInitRankConfig(Rank** made, int size, Id id, int rank, const void* config) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  const auto* const words = static_cast<const unsigned*>(config);
  if (words[2] != 0xcafebeef || words[4] != 0) return kInvalidUsage;  // calls would block
  if (!std::string(id.bytes).starts_with(process())) return kInvalidUsage;
  auto& meeting = fake().meetings[id.bytes];
  if (meeting == nullptr) meeting = std::make_shared<Meeting>();
  meeting->size = size;
  if (++meeting->joined > size) return kInvalidUsage;  // the id is not fresh
  auto own = std::make_shared<Rank>();
  own->meeting = meeting;
  own->rank = rank;
  *made = own.get();
  fake().ranks.emplace(own.get(), own);
  return kInProgress;
}
int ncclCommGetAsyncError(Rank* rank, int* state) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  if (!fake().ranks.contains(rank)) return kInvalidArgument;
  const bool is_joining = rank->meeting->joined < rank->meeting->size;
  *state = fake().error != 0 ? fake().error : is_joining ? kInProgress : kSuccess;
  return kSuccess;
}
int ncclCommFinalize(Rank* rank) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  return fake().ranks.contains(rank) ? kInProgress : kInvalidArgument;
}
int ncclCommDestroy(Rank* rank) {
  const std::lock_guard lock(fake().mutex);
  if (!fake().ranks.contains(rank) || rank->kernels > 0) return kInvalidUsage;
  fake().ranks.erase(rank);
  return kSuccess;
}
int ncclCommAbort(Rank* rank) {
  const std::lock_guard lock(fake().mutex);
  if (!fake().ranks.contains(rank)) return kInvalidArgument;
  if (pending.depth > 0) return kInProgress;  // with the group's end, which does not come
  rank->is_aborted = true;
  ++fake().aborts;
  fake().ranks.erase(rank);
  fake().changed.notify_all();
  return kSuccess;
}
int ncclRedOpCreatePreMulSum(int* op, void* scalar, int type, int residence, Rank* rank) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  if (!fake().ranks.contains(rank) || residence != 1) return kInvalidArgument;
  *op = kFirstFactor;
  while (rank->factors.contains(*op)) ++*op;
  rank->factors[*op] = static_cast<double>(load(static_cast<const std::byte*>(scalar), type));
  return kSuccess;
}
int ncclRedOpDestroy(int op, Rank* rank) {
  ENTER();
  const std::lock_guard lock(fake().mutex);
  return fake().ranks.contains(rank) && rank->factors.erase(op) == 1 ? kSuccess : kInvalidArgument;
}

int ncclGroupStart() {
  ENTER();
  ++pending.depth;
  return kSuccess;
}
int ncclGroupEnd() {
  if (fake_cuda_enter(__func__) != kSuccess) {
    pending = {};
    return kUnhandledCudaError;
  }
  if (pending.depth == 0 || --pending.depth > 0) return pending.depth > 0 ? kSuccess : kInvalidUsage;
  const std::lock_guard lock(fake().mutex);
  return launch();
}
int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int op, Rank* rank, void* stream) {
  ENTER();
  return reduce_all(rank, stream, in, out, count, type, op, false);
}
int ncclReduce(const void* in, void* out, std::size_t count, int type, int op, int root, Rank* rank,
               void* stream) {
  ENTER();
  return reduce_all(rank, stream, in, rank->rank == root ? out : nullptr, count, type, op, false);
}
int ncclReduceScatter(const void* in, void* out, std::size_t count, int type, int op, Rank* rank,
                      void* stream) {
  ENTER();
  return reduce_all(rank, stream, in, out, count, type, op, true);
}
int ncclBroadcast(const void* in, void* out, std::size_t count, int type, int root, Rank* rank,
                  void* stream) {
  ENTER();
  const std::size_t bytes = count * size_of(type);
  return meet(rank, stream, in, out, [=](const Meeting::Call& call) {
    for (std::byte* const to : call.out)
      if (bytes > 0) std::memmove(to, call.in[static_cast<std::size_t>(root)], bytes);
  });
}
int ncclAllGather(const void* in, void* out, std::size_t count, int type, Rank* rank, void* stream) {
  ENTER();
  const std::size_t bytes = count * size_of(type);
  return meet(rank, stream, in, out, [=](const Meeting::Call& call) {
    for (std::byte* const to : call.out)
      for (std::size_t r = 0; r < call.in.size(); ++r)
        if (bytes > 0) std::memmove(to + r * bytes, call.in[r], bytes);
  });
}
int ncclSend(const void* from, std::size_t count, int type, int peer, Rank* rank, void* stream) {
  ENTER();
  const auto mail = std::make_shared<Mail>(Mail{inside(from), count * size_of(type)});
  if (mail->data == nullptr) return kInvalidArgument;
  const Part post = [=](auto&, Rank& self) {
    self.meeting->mail[{self.rank, peer}].push_back(mail);
    fake().changed.notify_all();
  };
  const Part end = [=](std::unique_lock<std::mutex>& lock, Rank& self) {
    if (!wait(lock, self, [&] { return mail->is_taken; })) mail->data = nullptr;
  };
  return add(rank, stream, {post, Part(), end});
}
int ncclRecv(void* to, std::size_t count, int type, int peer, Rank* rank, void* stream) {
  ENTER();
  std::byte* const there = inside(to);
  if (there == nullptr) return kInvalidArgument;
  const Part take = [=](std::unique_lock<std::mutex>& lock, Rank& self) {
    auto& mail = self.meeting->mail[{peer, self.rank}];
    if (!wait(lock, self, [&] { return !mail.empty() && mail.front()->data != nullptr; })) return;
    if (mail.front()->bytes != count * size_of(type)) std::abort();
    std::memcpy(there, mail.front()->data, mail.front()->bytes);
    mail.front()->is_taken = true;
    mail.pop_front();
    fake().changed.notify_all();
  };
  return add(rank, stream, {Part(), take, Part()});
}
}
