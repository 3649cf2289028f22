#include "comm/device/device_calls.hpp"

#include <new>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "comm/device/staged_run.hpp"

namespace kolo {
namespace {

/// As Communicator::State::meet() numbers.
constexpr std::uint64_t kForDevices = 1;

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
  using Operation::Operation;

  std::vector<int> waiting_for() const override {
    return presence->done() ? std::vector<int>() : presence->waiting_for();
  }
  bool needs(int) const override { return false; }

  std::shared_ptr<engine::Operation> presence;  ///< the call without data
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
};

Communicator::State::DeviceCalls::DeviceCalls(State& outer)
    : outer_(outer),
      barrier_(outer.prepare({.collective = schedule::Collective::barrier})),
      thread_([this] { run(); }) {}

Communicator::State::DeviceCalls::~DeviceCalls() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    if (!jobs_.empty()) outer_.engine->fail(Code::peer_lost, "destroyed its communicator");
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<const device::Gpu> Communicator::State::DeviceCalls::gpu_of(int index) {
  auto& known = gpus_[index];
  if (known == nullptr) {
    auto found = device::Gpu::of(index);
    found.status().throw_if_error();
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
  const auto fail = [&](const Status& status) {
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
  try {
    job->gpu = gpu_of(device.index());
  } catch (const Error& error) {
    fail(Status(Code::system, error.what()));
  }
  const device::Gpu::Current current(*job->gpu);
  const auto require = [&](const Status& status) {
    if (!status.ok()) fail(status);
  };
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
  presence->signature = outer_.staged_signature(job->key, job->options);
  presence->algorithm = "staged";
  engine::OperationSpec spec;
  spec.prepared = presence.get();
  spec.group = outer_.group;
  spec.signature = presence->signature;
  spec.timeout = job->timeout;
  spec.counts = false;
  spec.call = spec.sequence = ++outer_.calls;
  job->operation = std::make_shared<DeviceOperation>(outer_.engine);
  job->operation->presence = outer_.engine->start(spec, false);
  outer_.engine->adopt(*job->operation, spec);
  const Work work(job->operation);
  {
    const std::lock_guard own(mutex_);
    jobs_.push_back(std::move(job));
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
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    if (jobs_.empty()) break;
    Job& job = *jobs_.front();
    lock.unlock();
    Status status = carry_out(job);
    const auto operation = job.operation;
    std::unique_ptr<Job> ended;  // the caller expects its reduction to be gone
    lock.lock();
    ended = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    ended.reset();
    outer_.engine->finish(operation, std::move(status));
    lock.lock();
  }
  lock.unlock();
  for (auto& [index, staging] : stagings_) {
    const device::Gpu::Current current(staging->gpu());
    staging.reset();
  }
}

Status Communicator::State::DeviceCalls::carry_out(Job& job) {
  const device::Gpu::Current current(*job.gpu);
  Status status = current.status();
  try {
    if (status.ok()) move_pieces(job);
  } catch (const comm::Broken& broken) {
    status = broken.status;
  } catch (const Error& error) {  // of a call on a piece, after which the engine has failed
    status = Status(Code::system, error.what());
  } catch (const std::bad_alloc&) {
    status = outer_.engine->end_without_memory();
  }
  if (!status.ok()) {
    // Other ranks wait for this one. Where the engine has failed already, this does nothing.
    outer_.engine->fail(status.code(), fmt::format("cannot go on with call {}: {}",
                                                   job.operation->spec().call, status.message()));
  }
  job.begin = {};
  return status;
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
