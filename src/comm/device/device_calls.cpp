#include "comm/device/device_calls.hpp"

#include <atomic>
#include <chrono>
#include <new>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/log.hpp"
#include "comm/device/broken.hpp"
#include "comm/device/gpu_engine.hpp"
#include "comm/device/looks.hpp"
#include "comm/device/staged_run.hpp"

namespace kolo {
namespace {

/// As Communicator::State::meet() numbers.
constexpr std::uint64_t kForDevices = 1;
// NCCL's kernels end when they see that they shall, but work before them on other streams may be late.
constexpr std::chrono::seconds kAbortTime{1};
// For what NCCL still has to send when a rank leaves.
constexpr std::chrono::seconds kLeaveTime{5};

/// The device of a call's buffers.
class CommonDevice {
 public:
  void add(const ConstBuffer& buffer) {
    if (buffer.count == 0 && found_) return;
    if (found_ && !is_empty_ && *found_ != buffer.device) other_ = buffer.device;
    if (!found_ || is_empty_) found_ = buffer.device;
    is_empty_ = buffer.count == 0;
  }
  template <typename B>
  void add(const std::optional<std::span<const B>>& list) {
    if (!list) return;
    for (const B& buffer : *list) add(buffer);
  }
  int index() const { return found_->index; }
  Status status() const {
    if (!other_) return {};
    return Status(Code::invalid_argument,
                  fmt::format("buffers are on {} and on {}", text_of(*found_), text_of(*other_)));
  }

 private:
  static std::string text_of(Device device) {
    return device.kind == DeviceKind::host ? "the host" : fmt::format("cuda:{}", device.index);
  }

  std::optional<Device> found_, other_;
  bool is_empty_ = true;
};

template <typename B>
std::vector<B> on_host(std::span<const B> buffers) {
  std::vector<B> result(buffers.begin(), buffers.end());
  for (B& buffer : result) buffer.device = {};
  return result;
}

}  // namespace

/// What the caller waits for.
class Communicator::State::DeviceCalls::DeviceOperation final : public engine::Operation {
 public:
  DeviceOperation(std::weak_ptr<engine::Engine> owner, std::shared_ptr<engine::Operation> presence_,
                  std::shared_ptr<const device::Gpu> gpu)
      : Operation(std::move(owner)), presence(std::move(presence_)), gpu_(std::move(gpu)) {}

  std::vector<int> waiting_for() const override {
    return presence->done() ? std::vector<int>() : presence->waiting_for();
  }
  bool needs(int) const override { return false; }
  std::string algorithm() const override { return is_nccl_ ? "nccl" : spec().prepared->algorithm; }

  bool order(void* stream) override {
    std::unique_lock lock(mutex_);
    if (is_forked_copy()) return false;
    changed_.wait(lock, [this] { return place_ != Place::unknown; });
    if (place_ != Place::on_stream) return false;
    const device::Gpu::Current current(*gpu_);
    current.status().throw_if_error();
    end_.hold_back(static_cast<device::cuda::Stream>(stream)).throw_if_error();
    return true;
  }

  /// --- For the thread of the calls. ---
  /// From now on work can be ordered behind `end`.
  void put_before(device::Event&& end) {
    const std::lock_guard lock(mutex_);
    end_ = std::move(end);
    is_nccl_ = true;
    place_ = Place::on_stream;
    changed_.notify_all();
  }
  bool has_ended() const {
    auto reached = end_.reached();  // only the thread that asks puts another event there
    comm::require_sound(reached.status());
    return reached.value();
  }
  /// The host carries it out, or has seen its end.
  void leave_stream() {
    const std::lock_guard lock(mutex_);
    end_ = {};
    place_ = Place::elsewhere;
    changed_.notify_all();
  }

  const std::shared_ptr<engine::Operation> presence;  ///< the call without data

 private:
  enum class Place { unknown, on_stream, elsewhere };

  const std::shared_ptr<const device::Gpu> gpu_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Place place_ = Place::unknown;
  device::Event end_;
  std::atomic<bool> is_nccl_ = false;
};

struct Communicator::State::DeviceCalls::Job {
  std::shared_ptr<DeviceOperation> operation;
  comm::Call call;
  CallOptions options;
  schedule::CallKey key;
  comm::CallParts parts;
  std::shared_ptr<const device::Gpu> gpu;
  device::Event begin;  ///< what the caller's stream held
  std::chrono::nanoseconds timeout;

  bool fits_nccl() const { return comm::NcclGroup::has(key, options); }
};

Communicator::State::DeviceCalls::DeviceCalls(State& outer)
    : outer_(outer),
      barrier_(outer.prepare({.collective = schedule::Collective::barrier})),
      thread_([this] { run(); }) {}

Communicator::State::DeviceCalls::~DeviceCalls() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    if (unfinished_ > 0) outer_.engine->fail(Code::peer_lost, "destroyed its communicator");
  }
  changed_.notify_all();
  thread_.join();
}

Result<std::shared_ptr<const device::Gpu>> Communicator::State::DeviceCalls::gpu_of(int index) {
  auto& known = gpus_[index];
  if (known == nullptr) {
    auto found = device::Gpu::of(index);
    if (!found.ok()) return found.status();
    known = std::move(found).value();
  }
  return known;
}

Work Communicator::State::DeviceCalls::start(comm::Call&& call, comm::CountSpan counts,
                                             comm::CountSpan recv_counts) {
  auto job = std::make_unique<Job>();
  job->options = *call.options;
  CommonDevice device;
  device.add(call.in);
  device.add(call.out);
  comm::Lists lists;
  std::vector<ConstBuffer> in;
  std::vector<Buffer> out;
  if (call.lists != nullptr) {
    lists = {.in = call.lists->in, .out = call.lists->out};
    device.add(lists.in);
    device.add(lists.out);
    if (lists.in) lists.in = in = on_host(*lists.in);
    if (lists.out) lists.out = out = on_host(*lists.out);
    call.lists = &lists;
  }
  const auto require = [&](const Status& status) {
    if (status.ok()) return;
    const Status full = status.prefixed(std::string(schedule::name_of(call.collective)));
    outer_.engine->fail(full.code(), "cannot take part: " + full.message());
    outer_.refuse(full);
  };
  outer_.require(device.status().prefixed(std::string(schedule::name_of(call.collective))));
  call.in.device = call.out.device = {};
  CallOptions plain = job->options;
  plain.stream = nullptr;
  call.options = &plain;
  outer_.require(comm::check(call, outer_.rank, outer_.size, counts, recv_counts, job->key));
  outer_.apply(plain, job->key);
  job->parts = comm::CallParts::of(call, job->key, outer_.rank, outer_.size);
  call.lists = nullptr;

  const std::lock_guard lock(outer_.mutex);
  auto gpu = gpu_of(device.index());
  require(gpu.status());
  job->gpu = std::move(gpu).value();
  const device::Gpu::Current current(*job->gpu);
  require(current.status());
  auto* const stream = static_cast<device::cuda::Stream>(job->options.stream);
  require(job->gpu->require_own(stream));
  for (const ConstBuffer& part : job->parts.in) require(job->gpu->require_own("in", part.data, part.bytes()));
  for (const Buffer& part : job->parts.out) require(job->gpu->require_own("out", part.data, part.bytes()));
  auto begin = device::Event::make(job->gpu);
  require(begin.status());
  job->begin = std::move(begin).value();
  require(job->begin.record(stream));
  job->options.stream = nullptr;
  job->call = std::move(call);
  job->call.options = &job->options;
  job->timeout = job->options.timeout.count() > 0 ? job->options.timeout : outer_.timeout.load();

  const auto presence = std::make_shared<engine::PreparedCall>(*barrier_);
  presence->signature = outer_.device_signature(job->key, job->options, job->parts.are_listed);
  presence->algorithm = "staged";
  engine::OperationSpec spec;
  spec.prepared = presence.get();
  spec.group = outer_.group;
  spec.signature = presence->signature;
  spec.timeout = job->timeout;
  spec.counts = false;
  spec.call = spec.sequence = ++outer_.calls;
  job->operation =
      std::make_shared<DeviceOperation>(outer_.engine, outer_.engine->start(spec, false), job->gpu);
  outer_.engine->adopt(*job->operation, spec);
  const Work work(job->operation);
  {
    const std::lock_guard own(mutex_);
    jobs_.push_back(std::move(job));
    ++unfinished_;
  }
  changed_.notify_all();
  return work;
}

/// The group in which pieces are summed, made when all ranks are known to be in a call.
Communicator::State& Communicator::State::DeviceCalls::pieces() {
  if (pieces_ == nullptr) {
    std::vector<int> all(static_cast<std::size_t>(outer_.size));
    std::iota(all.begin(), all.end(), 0);
    const auto meeting = outer_.meet(all, kForDevices);
    std::seed_seq seed{outer_.group->context, ~outer_.group->context};
    pieces_ = outer_.open_part(*meeting->reserve_group(std::mt19937(seed), comm::kCreatesGroup), all);
  }
  return *pieces_;
}

comm::Staging& Communicator::State::DeviceCalls::staging_of(const Job& job) {
  const auto found = stagings_.find(job.gpu->index());
  if (found != stagings_.end()) return *found->second;
  auto made = comm::Staging::make(job.gpu);
  comm::require_sound(made.status());
  return *(stagings_[job.gpu->index()] = std::move(made).value());
}

void Communicator::State::DeviceCalls::run() {
  std::unique_lock lock(mutex_);
  int looks = 0;  // without news
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !jobs_.empty() || !running_.empty(); });
    if (jobs_.empty() && running_.empty()) break;
    std::unique_ptr<Job> next;
    if (!jobs_.empty()) {
      next = std::move(jobs_.front());
      jobs_.pop_front();
    }
    lock.unlock();
    const bool is_news = next != nullptr || look_at_running();
    if (next != nullptr) carry_out(std::move(next));
    looks = is_news ? 0 : looks + 1;
    if (!is_news) comm::pause(looks);
    lock.lock();
  }
  lock.unlock();
  close();
}

/// Returns what is wrong: with a device, with NCCL, or with the engine, which has failed then.
Status Communicator::State::DeviceCalls::guard(const std::function<void()>& part) {
  try {
    part();
    return {};
  } catch (const comm::Broken& broken) {
    return broken.status;
  } catch (const Error& error) {
    return Status(Code::system, error.what());
  } catch (const std::bad_alloc&) {
    return outer_.engine->end_without_memory();
  }
}

void Communicator::State::DeviceCalls::carry_out(std::unique_ptr<Job> job) {
  const device::Gpu::Current current(*job->gpu);
  bool is_on_stream = false;
  Status status = guard([&] {
    comm::require_sound(current.status());
    if (job->fits_nccl() && !has_engine_) choose_engine(*job);
    is_on_stream = job->fits_nccl() && nccl_ != nullptr;
    if (is_on_stream) return put_on_stream(*job);
    for (int looks = 0; !running_.empty(); comm::pause(++looks)) look_at_running();
    job->operation->leave_stream();
    move_pieces(*job);
  });
  if (status.ok() && is_on_stream) return running_.push_back(std::move(job));
  if (!status.ok()) fail(*job, status);
  end(std::move(job), std::move(status));
}

void Communicator::State::DeviceCalls::end(std::unique_ptr<Job> job, Status status) {
  const auto operation = job->operation;
  operation->leave_stream();
  job.reset();  // the caller expects its reduction to be gone
  {
    const std::lock_guard lock(mutex_);
    --unfinished_;
  }
  outer_.engine->finish(operation, std::move(status));
}

void Communicator::State::DeviceCalls::wait_for_presence(const Job& job) {
  const Work presence(job.operation->presence);
  while (!running_.empty() && !presence.wait(comm::kLook)) look_at_running();
  presence.wait();
}

/// The ranks tell each other what they have, and all come to the same.
void Communicator::State::DeviceCalls::choose_engine(const Job& job) {
  wait_for_presence(job);
  auto own = comm::GpuAbility::of(*job.gpu);
  comm::require_sound(own.status());
  std::vector<comm::GpuAbility> all(static_cast<std::size_t>(outer_.size));
  const auto share = [&](schedule::Collective collective, const void* in, void* out, std::size_t bytes,
                         std::size_t out_bytes) {
    comm::Call call{.collective = collective,
                    .in = ConstBuffer(in, bytes, DType::uint8),
                    .out = Buffer(out, out_bytes, DType::uint8)};
    pieces().run(std::move(call));
  };
  share(schedule::Collective::all_gather, &own.value(), all.data(), sizeof all[0],
        all.size() * sizeof all[0]);
  auto choice = comm::choose_gpu_engine(all);
  comm::require_sound(choice.status());
  log().info("rank {}: calls on devices are {}: {}", outer_.rank,
             choice.value().engine == comm::GpuEngine::nccl ? "NCCL's" : "staged", choice.value().why);
  has_engine_ = true;
  if (choice.value().engine == comm::GpuEngine::staged) return;
  device::nccl::UniqueId id{};
  if (outer_.rank == 0) comm::require_sound(device::Nccl::instance().value_or_throw()->get_unique_id(&id));
  share(schedule::Collective::broadcast, nullptr, &id, 0, sizeof id);
  watch(job);
  nccl_ = std::make_unique<comm::NcclGroup>(job.gpu, outer_.rank, outer_.size, id, [this] { look(); });
}

/// The first of the calls on NCCL's stream waits for the ranks.
void Communicator::State::DeviceCalls::watch(const Job& job) {
  if (watch_ == nullptr) watch_ = outer_.engine->watch(job.operation->spec());
}

void Communicator::State::DeviceCalls::unwatch() {
  if (watch_ != nullptr) outer_.engine->unwatch(*std::exchange(watch_, nullptr));
}

/// While something waits for NCCL: throws once a rank is lost.
void Communicator::State::DeviceCalls::look() {
  if (outer_.engine->test(*watch_)) watch_->status().throw_if_error();
}

/// A call that all other ranks wait for, because this rank's stream does not reach it, says so.
void Communicator::State::DeviceCalls::require_stream(const Job& job) {
  if (Clock::now() - watch_->started() < job.timeout) return;
  auto reached = job.begin.reached();
  comm::require_sound(reached.status());
  if (reached.value()) return;
  comm::require_sound(comm::late_stream(job.timeout));
}

void Communicator::State::DeviceCalls::put_on_stream(Job& job) {
  wait_for_presence(job);
  if (nccl_ == nullptr) throw comm::Broken{Status(Code::system, "NCCL has failed")};
  if (job.gpu->index() != nccl_->gpu().index()) {
    comm::require_sound(Status(Code::invalid_argument,
                               fmt::format("this communicator's calls run on cuda:{}, but the memory is "
                                           "on cuda:{}",
                                           nccl_->gpu().index(), job.gpu->index())));
  }
  watch(job);
  auto end = device::Event::make(job.gpu);
  comm::require_sound(end.status());
  nccl_->put(job.key, job.parts, job.call.reduction.factor(), job.begin, end.value(), [this] { look(); });
  job.operation->put_before(std::move(end).value());
}

/// Returns whether a call has ended.
bool Communicator::State::DeviceCalls::look_at_running() {
  if (running_.empty()) return false;
  const device::Gpu::Current current(*running_.front()->gpu);
  bool has_ended = false;
  const Status status = guard([&] {
    has_ended = running_.front()->operation->has_ended();
    if (has_ended) return;
    require_stream(*running_.front());
    static_cast<void>(nccl_->is_settled());
    look();
  });
  if (!status.ok()) fail(*running_.front(), status);
  if (!has_ended) return !status.ok();
  auto ended = std::move(running_.front());
  running_.pop_front();
  unwatch();
  if (!running_.empty()) watch(*running_.front());
  end(std::move(ended), {});
  return true;
}

/// All ranks come here, since their engines fail too: then none waits for another one in NCCL.
void Communicator::State::DeviceCalls::fail(const Job& failed, const Status& status) {
  // Where the engine has failed already, this does nothing.
  outer_.engine->fail(status.code(), fmt::format("cannot go on with call {}: {}",
                                                 failed.operation->spec().call, status.message()));
  unwatch();
  nccl_.reset();  // aborts
  const auto deadline = Deadline::after(kAbortTime);
  while (!running_.empty()) {
    auto job = std::move(running_.front());
    running_.pop_front();
    // The device may still use the memory. A device that has failed does not tell.
    static_cast<void>(guard([&] {
      while (!job->operation->has_ended() && !deadline.passed()) std::this_thread::sleep_for(comm::kLook);
    }));
    end(std::move(job), status);
  }
}

void Communicator::State::DeviceCalls::close() {
  unwatch();
  if (nccl_ != nullptr) {
    const device::Gpu::Current current(nccl_->gpu());
    if (!outer_.engine->has_failed()) nccl_->close(Deadline::after(kLeaveTime));
    nccl_.reset();
  }
  for (auto& [index, staging] : stagings_) {
    const device::Gpu::Current current(staging->gpu());
    staging.reset();
  }
}

void Communicator::State::DeviceCalls::move_pieces(Job& job) {
  const comm::CallParts& parts = job.parts;
  const auto begin = [&](comm::Columns columns, std::byte* input, std::byte* output) {
    comm::Call call = job.call;
    call.in = ConstBuffer(input, parts.input(columns), job.key.dtype);
    call.out = Buffer(output, parts.output(columns), job.key.dtype);
    // What is always in place has one buffer, also where nothing comes out.
    if (parts.is_one && call.out.count == 0) call.out.count = call.in.count;
    const auto clipped = [&](std::vector<std::uint64_t> counts) {
      for (std::uint64_t& count : counts) count = columns.of(count).size();
      return counts;
    };
    return pieces().start(std::move(call), false, clipped(parts.counts), clipped(parts.recv_counts));
  };
  comm::StagedRun(parts, size_of(job.key.dtype), staging_of(job), job.timeout)
      .run(job.begin, Work(job.operation->presence), begin);
}

}  // namespace kolo
