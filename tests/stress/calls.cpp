#include "stress/calls.hpp"

#include <algorithm>
#include <exception>
#include <span>

namespace kolo::stress {
namespace {

/// Element i of a rank's data is its base + i modulo kPeriod: sums stay small, and can be told.
constexpr std::uint64_t kPeriod = 1021;

/// What those that are left sum: more than one message, in shared memory more than one piece.
constexpr std::size_t kSumAfterwards = 300'001;

constexpr const char* kNames[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"};

void fill(std::int32_t* data, std::uint64_t count, std::int32_t base) {
  for (std::uint64_t i = 0; i < count; i += kPeriod) {
    const std::uint64_t end = std::min(kPeriod, count - i);
    for (std::uint64_t k = 0; k < end; ++k) data[i + k] = base + static_cast<std::int32_t>(k);
  }
}

}  // namespace

Calls::Calls(Communicator world, Memory& memory) : memory_(memory) {
  groups_.push_back(world);
  groups_.push_back(world.split(world.rank() % 2));
  groups_.push_back(world.split(0, -world.rank()));
}

int Calls::world_rank(int rank) const {
  const Communicator& world = groups_[0];
  if (step_.group == Group::world) return rank;
  return step_.group == Group::half ? 2 * rank + world.rank() % 2 : world.size() - 1 - rank;
}

int Calls::blamed(const ErrorContext& context) const {
  return context.peer < 0 ? -1 : world_rank(context.peer);
}

std::int32_t Calls::base(std::uint64_t call, int rank) const {
  return static_cast<std::int32_t>(Random(call * 64 + static_cast<std::uint64_t>(rank)).below(1 << 20));
}

std::int32_t Calls::base_of_sum(std::uint64_t call) const {
  std::int32_t sum = 0;
  for (int rank = 0; rank < group().size(); ++rank) sum += base(call, rank);
  return sum;
}

/// Where the in-place forms want input and output, if the step runs in place.
Calls::Call Calls::prepare() {
  const Communicator& c = group();
  const std::uint64_t count = step_.count;
  const std::uint64_t all = count * static_cast<std::uint64_t>(c.size());
  const std::uint64_t own_part = count * static_cast<std::uint64_t>(c.rank());
  Call call{made_++, nullptr, nullptr, {}};
  switch (step_.kind) {
    case Kind::all_reduce:
      call.in = memory_.take(count);
      call.out = step_.in_place ? call.in : memory_.take(count);
      break;
    case Kind::broadcast:
      call.in = call.out = memory_.take(count);
      break;
    case Kind::all_gather:
      call.out = memory_.take(all);
      call.in = step_.in_place ? call.out + own_part : memory_.take(count);
      break;
    case Kind::reduce_scatter:
      call.in = memory_.take(all);
      call.out = step_.in_place ? call.in + own_part : memory_.take(count);
      fill(call.in, all, base(call.number, c.rank()));
      return call;
    case Kind::barrier:
      return call;
  }
  fill(call.in, count, base(call.number, c.rank()));
  return call;
}

void Calls::start(Call& call) const {
  Communicator c = group();
  const std::uint64_t count = step_.count;
  const std::uint64_t all = count * static_cast<std::uint64_t>(c.size());
  const auto buffer = [](std::int32_t* data, std::uint64_t n) { return Buffer(data, n, DType::int32); };
  const CallOptions options{.algorithm = step_.algorithm};
  switch (step_.kind) {
    case Kind::all_reduce:
      call.work = c.all_reduce_async(buffer(call.in, count), buffer(call.out, count), ReduceOp::sum, options);
      break;
    case Kind::broadcast:
      call.work =
          c.broadcast_async(buffer(call.out, count),
                            static_cast<int>(step_.root % static_cast<std::uint64_t>(c.size())), options);
      break;
    case Kind::all_gather:
      call.work = c.all_gather_async(buffer(call.in, count), buffer(call.out, all), {}, options);
      break;
    case Kind::reduce_scatter:
      call.work =
          c.reduce_scatter_async(buffer(call.in, all), buffer(call.out, count), ReduceOp::sum, {}, options);
      break;
    case Kind::barrier:
      call.work = c.barrier_async(options);
      break;
  }
}

void Calls::run(const Step& step) {
  step_ = step;
  std::vector<Call> calls;
  for (int i = 0; i < step.calls; ++i) calls.push_back(prepare());
  std::exception_ptr error;
  const auto end = [&](Call& call) {
    try {
      call.work.wait();
    } catch (const Error&) {
      if (!error) error = std::current_exception();
      return;
    }
    check(call);
  };
  for (Call& call : calls) {
    start(call);
    if (!step.asynchronous) end(call);
  }
  // Also when one has failed: what succeeded must be right.
  if (step.asynchronous) {
    for (Call& call : calls) end(call);
  }
  if (error) std::rethrow_exception(error);
  memory_.free_all();
}

void Calls::expect(const std::int32_t* data, std::uint64_t first, std::uint64_t count, std::int32_t base,
                   std::int32_t factor) const {
  for (std::uint64_t i = 0; i < count;) {
    const std::uint64_t phase = (first + i) % kPeriod;
    const std::uint64_t end = std::min(count - i, kPeriod - phase);
    const auto right = [&](std::uint64_t k) { return base + factor * static_cast<std::int32_t>(phase + k); };
    std::int32_t wrong = 0;
    for (std::uint64_t k = 0; k < end; ++k) wrong |= data[i + k] ^ right(k);
    for (std::uint64_t k = 0; wrong != 0 && k < end; ++k) {
      if (data[i + k] == right(k)) continue;
      throw Wrong("wrong result: " + std::string(kNames[static_cast<int>(step_.kind)]) + " of " +
                  std::to_string(step_.count) + " elements by " + std::to_string(group().size()) +
                  " ranks: element " + std::to_string(i + k) + " is " + std::to_string(data[i + k]) +
                  " instead of " + std::to_string(right(k)));
    }
    i += end;
  }
}

void Calls::check(const Call& call) const {
  const std::uint64_t count = step_.count;
  const int size = group().size();
  switch (step_.kind) {
    case Kind::all_reduce:
      return expect(call.out, 0, count, base_of_sum(call.number), size);
    case Kind::broadcast:
      return expect(call.out, 0, count,
                    base(call.number, static_cast<int>(step_.root % static_cast<std::uint64_t>(size))), 1);
    case Kind::all_gather:
      for (int rank = 0; rank < size; ++rank)
        expect(call.out + count * static_cast<std::uint64_t>(rank), 0, count, base(call.number, rank), 1);
      return;
    case Kind::reduce_scatter:
      return expect(call.out, count * static_cast<std::uint64_t>(group().rank()), count,
                    base_of_sum(call.number), size);
    case Kind::barrier:
      return;
  }
}

bool Calls::agree(bool finish) {
  step_ = Step{};
  std::int64_t flag = finish ? 1 : 0;
  groups_[0].all_reduce(Buffer(&flag, 1, DType::int64), ReduceOp::max);
  return flag != 0;
}

bool Calls::all_fail() const {
  for (Communicator c : groups_) {
    if (c.size() < 2) continue;
    try {
      c.barrier();
      return false;
    } catch (const Error&) {
    }
  }
  return true;
}

void Calls::go_on(int left) {
  const SharedMemory shared(kSumAfterwards * sizeof(std::int32_t));
  std::vector<std::int32_t> own(kSumAfterwards);
  Communicator current = groups_.front().shrink();
  const auto sum = [&](std::span<std::int32_t> data) {
    std::ranges::fill(data, current.rank() + 1);
    current.all_reduce(data);
    const std::int32_t expected = current.size() * (current.size() + 1) / 2;
    if (std::ranges::any_of(data, [&](std::int32_t value) { return value != expected; }))
      throw Wrong("a wrong sum among those that are left");
  };
  const auto sum_all = [&] {
    for (const std::size_t count : {std::size_t{1}, kSumAfterwards}) {
      sum({reinterpret_cast<std::int32_t*>(shared.data()), count});
      sum({own.data(), count});
    }
  };
  while (current.size() > left) {
    try {
      for (;;) sum_all();
    } catch (const Error&) {
    }
    current = current.shrink();
  }
  if (current.size() < left) throw Wrong("somebody who is alive was left out");
  sum_all();
}

}  // namespace kolo::stress
