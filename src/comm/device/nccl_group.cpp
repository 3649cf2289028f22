#include "comm/device/nccl_group.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "comm/device/broken.hpp"
#include "comm/device/looks.hpp"

namespace kolo::comm {
namespace {

using schedule::Collective;
namespace nccl = device::nccl;

std::optional<nccl::Type> type_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return nccl::float32;
    case DType::float64:
      return nccl::float64;
    case DType::float16:
      return nccl::float16;
    case DType::bfloat16:
      return nccl::bfloat16;
    case DType::int8:
      return nccl::int8;
    case DType::int32:
      return nccl::int32;
    case DType::int64:
      return nccl::int64;
    case DType::uint8:
      return nccl::uint8;
    case DType::uint32:
      return nccl::uint32;
    case DType::uint64:
      return nccl::uint64;
    default:
      return std::nullopt;
  }
}

std::optional<nccl::Operation> operation_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return nccl::sum;
    case ReduceOp::product:
      return nccl::product;
    case ReduceOp::min:
      return nccl::min;
    case ReduceOp::max:
      return nccl::max;
    case ReduceOp::average:
      return nccl::average;
    default:
      return std::nullopt;
  }
}

/// As NCCL reads a factor for elements of this type.
union Factor {
  float float32;
  double float64;
  Float16 float16;
  BFloat16 bfloat16;

  Factor(double value, DType dtype) : float64(value) {
    const auto rounded = static_cast<float>(value);
    if (dtype == DType::float32) float32 = rounded;
    if (dtype == DType::float16) float16 = to_float16(rounded);
    if (dtype == DType::bfloat16) bfloat16 = to_bfloat16(rounded);
  }
};

}  // namespace

bool NcclGroup::has(const schedule::CallKey& key, const CallOptions& options) {
  // An algorithm is one of kolo's.
  if (key.collective == Collective::scan || key.is_rounded() || !options.algorithm.empty()) return false;
  // Counts of what a rank sends and of what another one expects would have to be compared first.
  if (key.collective == Collective::all_to_all) return !key.in_place && !key.is_uneven();
  return !schedule::is_reducing(key.collective) || (type_of(key.dtype) && operation_of(key.op));
}

NcclGroup::NcclGroup(std::shared_ptr<const device::Gpu> gpu, int rank, int size, const nccl::UniqueId& id,
                     const Look& look)
    : gpu_(std::move(gpu)), nccl_(*device::Nccl::instance().value_or_throw()), rank_(rank), size_(size) {
  auto stream = device::Stream::make(gpu_);
  require_sound(stream.status());
  stream_ = std::move(stream).value();
  nccl::Config config;
  try {
    require_sound(nccl_.comm_init_rank_config(&communicator_, size, id, rank, &config));
    settle(look);
  } catch (...) {
    if (communicator_ != nullptr) static_cast<void>(nccl_.comm_abort(communicator_));
    throw;
  }
}

NcclGroup::~NcclGroup() {
  if (communicator_ != nullptr) static_cast<void>(nccl_.comm_abort(communicator_));
}

/// NCCL's functions return before they are done: until then it takes no other call.
void NcclGroup::settle(const Look& look) const {
  for (int looks = 0; !is_settled(); pause(looks++)) look();
}

bool NcclGroup::is_settled() const {
  int state = 0;
  require_sound(nccl_.comm_get_async_error(communicator_, &state));
  require_sound(device::Nccl::status_of("ncclCommGetAsyncError", state));
  return state == 0;
}

void NcclGroup::put(const schedule::CallKey& key, const CallParts& parts, const double* factor,
                    const device::Event& begin, device::Event& end, const Look& look) {
  require_sound(begin.hold_back(stream_.handle()));
  if (parts.longest == 0) return require_sound(end.record(stream_.handle()));
  if (schedule::is_reducing(key.collective)) {
    reduce(key, parts, factor, look);
  } else {
    move(key, parts, look);
  }
  require_sound(end.record(stream_.handle()));
}

/// Several calls of NCCL as one.
template <typename Calls>
void NcclGroup::together(const Look& look, const Calls& calls) const {
  require_sound(nccl_.group_start());
  try {
    calls();
  } catch (...) {
    static_cast<void>(nccl_.group_end());  // else the abort is one of the group, and waits for its end
    throw;
  }
  require_sound(nccl_.group_end());
  settle(look);
}

void NcclGroup::reduce(const schedule::CallKey& key, const CallParts& parts, const double* factor,
                       const Look& look) const {
  const nccl::Type type = *type_of(key.dtype);
  nccl::Operation op = *operation_of(key.op);
  if (factor != nullptr) {
    Factor scalar(*factor, key.dtype);
    require_sound(nccl_.red_op_create_pre_mul_sum(&op, &scalar, type, nccl::host_at_once, communicator_));
  }
  const auto out = [&] { return parts.out.empty() ? nullptr : parts.out.front().data; };
  const auto reduce_to = [&](int root, const ConstBuffer& in, void* to) {
    require_sound(nccl_.reduce(in.data, to, in.count, type, op, root, communicator_, stream_.handle()));
  };
  together(look, [&] {
    if (key.collective == Collective::all_reduce) {
      require_sound(nccl_.all_reduce(parts.in.front().data, out(), parts.in.front().count, type, op,
                                     communicator_, stream_.handle()));
    } else if (key.collective == Collective::reduce) {
      reduce_to(key.root, parts.in.front(), out());
    } else if (parts.are_alike()) {
      require_sound(nccl_.reduce_scatter(parts.in.front().data, out(), parts.longest, type, op, communicator_,
                                         stream_.handle()));
    } else {
      for (int r = 0; r < size_; ++r)
        if (const ConstBuffer& part = parts.in[static_cast<std::size_t>(r)]; part.count > 0)
          reduce_to(r, part, r == rank_ ? out() : nullptr);
    }
  });
  if (factor != nullptr) require_sound(nccl_.red_op_destroy(op, communicator_));
}

/// What only travels, NCCL sees as bytes.
void NcclGroup::move(const schedule::CallKey& key, const CallParts& parts, const Look& look) const {
  const auto broadcast = [&](int root, const void* from, void* to, std::uint64_t bytes) {
    require_sound(nccl_.broadcast(from, to, bytes, nccl::uint8, root, communicator_, stream_.handle()));
  };
  together(look, [&] {
    if (key.collective == Collective::broadcast) {
      const ConstBuffer data = parts.out.empty() ? parts.in.front() : ConstBuffer(parts.out.front());
      broadcast(key.root, data.data, const_cast<void*>(data.data), data.bytes());
    } else if (key.collective != Collective::all_gather) {
      exchange(key, parts);
    } else if (parts.are_alike()) {
      require_sound(nccl_.all_gather(parts.in.front().data, parts.out.front().data, parts.in.front().bytes(),
                                     nccl::uint8, communicator_, stream_.handle()));
    } else {
      for (int r = 0; r < size_; ++r) {
        const Buffer& to = parts.out[static_cast<std::size_t>(r)];
        if (to.count > 0) broadcast(r, r == rank_ ? parts.in.front().data : to.data, to.data, to.bytes());
      }
    }
  });
}

/// Each part goes from one rank to another.
void NcclGroup::exchange(const schedule::CallKey& key, const CallParts& parts) const {
  const schedule::CollectiveTraits& traits = schedule::traits_of(key.collective);
  const auto part_of = [&](const auto& all, schedule::Parts kind, int r) {
    const bool is_for_each = kind == schedule::Parts::per_rank;
    const bool has = !all.empty() && (is_for_each || r == key.root);
    return has ? all[is_for_each ? static_cast<std::size_t>(r) : 0] : std::remove_cvref_t<decltype(all[0])>();
  };
  for (int r = 0; r < size_; ++r) {
    const ConstBuffer from = part_of(parts.in, traits.input, r);
    const Buffer to = part_of(parts.out, traits.output, r);
    if (r == rank_ && from.data == to.data) continue;
    if (from.count > 0) {
      require_sound(nccl_.send(from.data, from.bytes(), nccl::uint8, r, communicator_, stream_.handle()));
    }
    if (to.count > 0)
      require_sound(nccl_.recv(to.data, to.bytes(), nccl::uint8, r, communicator_, stream_.handle()));
  }
}

void NcclGroup::close(const Deadline& deadline) noexcept {
  if (!nccl_.comm_finalize(communicator_).ok()) return;
  int state = nccl::kInProgress;
  while (state == nccl::kInProgress && !deadline.passed()) {
    std::this_thread::sleep_for(kLook);
    if (!nccl_.comm_get_async_error(communicator_, &state).ok()) return;
  }
  if (state == 0) static_cast<void>(nccl_.comm_destroy(std::exchange(communicator_, nullptr)));
}

}  // namespace kolo::comm
