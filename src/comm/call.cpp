#include "comm/call.hpp"

#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "base/reduction.hpp"
#include "kernels/kernels.hpp"
#include "schedule/lengths.hpp"

namespace kolo::comm {
namespace {

Status wrong(const Call& call, const std::string& what) {
  return Status(Code::invalid_argument, fmt::format("{}: {}", schedule::name_of(call.collective), what),
                {.collective = std::string(schedule::name_of(call.collective))});
}

std::uint64_t sum(const std::vector<std::uint64_t>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::uint64_t{0});
}

/// The user's counts, or `total` split evenly, which must go without remainder.
Status divide(const Call& call, CountSpan counts, std::uint64_t total, int size, const char* name,
              std::vector<std::uint64_t>& parts) {
  const auto ranks = static_cast<std::size_t>(size);
  if (counts.empty()) {
    if (total > kMostElements) return wrong(call, "all parts together are more than memory can hold");
    if (total % ranks != 0) {
      return wrong(call,
                   fmt::format("{} elements of `{}` do not divide by {} ranks; pass the counts of the parts",
                               total, name, size));
    }
    parts = schedule::even_parts(total, ranks);
    return {};
  }
  if (counts.size() != ranks) {
    return wrong(call, fmt::format("{} counts were given for {} ranks", counts.size(), size));
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) {
    if (static_cast<std::int64_t>(count) < 0)
      return wrong(call, fmt::format("a count is {}", static_cast<std::int64_t>(count)));
    if (__builtin_add_overflow(sum, count, &sum) || sum > kMostElements) {
      return wrong(call, "the counts add up to more than memory can hold");
    }
  }
  parts.assign(counts.begin(), counts.end());
  return {};
}

Status expect(const Call& call, const char* name, std::uint64_t has, std::uint64_t needs) {
  if (has == needs) return {};
  return wrong(call, fmt::format("`{}` has {} elements, but {} are needed", name, has, needs));
}

/// Finds out whether the two buffers are the same memory at the place where the collective may run in place
/// (`in_skip` elements into `in`, `out_skip` into `out`); any other overlap is wrong.
Status check_overlap(Call& call, std::uint64_t in_skip, std::uint64_t out_skip) {
  if (call.in.count == 0 || call.out.count == 0) return {};
  const auto element = size_of(call.out.dtype);
  const auto in = reinterpret_cast<std::uintptr_t>(call.in.data);
  const auto out = reinterpret_cast<std::uintptr_t>(call.out.data);
  if (in + in_skip * element == out + out_skip * element) {
    call.in_place = true;
    return {};
  }
  if (in < out + call.out.bytes() && out < in + call.in.bytes()) {
    return wrong(call, "`in` and `out` overlap, but not as this collective's in-place form does");
  }
  return {};
}

std::uint64_t skip_to(const std::vector<std::uint64_t>& parts, int rank) {
  return std::accumulate(parts.begin(), parts.begin() + rank, std::uint64_t{0});
}

/// scatter and gather: `whole` is the buffer at the root that holds all parts, `part` what each rank holds.
Status check_rooted_parts(Call& call, int rank, int size, CountSpan counts, bool scatters) {
  std::vector<std::uint64_t> parts;
  const auto root = static_cast<std::size_t>(call.root);
  const std::uint64_t own = scatters ? call.out.count : call.in.count;
  const auto ranks = static_cast<std::uint64_t>(size);
  const std::uint64_t total = !counts.empty() ? 0 : own > kMostElements / ranks ? ~0ull : own * ranks;
  if (Status s = divide(call, counts, total, size, scatters ? "out" : "in", parts); !s.ok()) return s;
  const char* part_name = scatters ? "out" : "in";
  if (Status s = expect(call, part_name, own, parts[static_cast<std::size_t>(rank)]); !s.ok()) return s;
  call.count = sum(parts);
  if (rank == call.root) {
    const char* whole_name = scatters ? "in" : "out";
    if (Status s = expect(call, whole_name, scatters ? call.in.count : call.out.count, call.count); !s.ok())
      return s;
    const std::uint64_t skip = skip_to(parts, static_cast<int>(root));
    if (Status s = check_overlap(call, scatters ? skip : 0, scatters ? 0 : skip); !s.ok()) return s;
  } else if (scatters) {
    call.in = ConstBuffer(nullptr, 0, call.out.dtype);
  } else {
    call.out = Buffer(nullptr, 0, call.in.dtype);
  }
  call.in_parts = scatters ? parts : std::vector<std::uint64_t>{parts[static_cast<std::size_t>(rank)]};
  call.out_parts = scatters ? std::vector<std::uint64_t>{parts[static_cast<std::size_t>(rank)]} : parts;
  return {};
}

Status check_all_to_all(Call& call, int rank, int size, CountSpan send_counts, CountSpan recv_counts) {
  if (send_counts.empty() != recv_counts.empty()) {
    return wrong(call, "pass the counts of both directions, or of none");
  }
  if (Status s = divide(call, send_counts, call.in.count, size, "in", call.in_parts); !s.ok()) return s;
  if (Status s = divide(call, recv_counts, call.out.count, size, "out", call.out_parts); !s.ok()) return s;
  if (Status s = expect(call, "in", call.in.count, sum(call.in_parts)); !s.ok()) return s;
  if (Status s = expect(call, "out", call.out.count, sum(call.out_parts)); !s.ok()) return s;
  const auto own = static_cast<std::size_t>(rank);
  if (call.in_parts[own] != call.out_parts[own]) {
    return wrong(call, fmt::format("this rank sends itself {} elements but receives {}", call.in_parts[own],
                                   call.out_parts[own]));
  }
  // The counts of one rank say nothing about those of another: only the messages can be compared.
  call.count = send_counts.empty() ? call.in.count : 0;
  if (call.one_buffer) {
    call.in_place = true;
    return {};
  }
  if (Status s = check_overlap(call, 0, 0); !s.ok()) return s;
  if (call.in_place) return wrong(call, "`in` and `out` are the same memory; use the form with one buffer");
  return {};
}

}  // namespace

Unscaled place_scaled_input(Call& call) {
  const Unscaled unscaled{call.in.data, *call.reduction.factor()};
  call.in_place = call.out.count == call.in.count;
  if (call.in_place) {
    call.in = call.out;
    call.reduction = ReduceOp::sum;
  } else {
    const auto memory = std::make_shared_for_overwrite<std::byte[]>(call.in.bytes());
    call.in.data = memory.get();
    call.reduction = sum_that_keeps(memory);
  }
  return unscaled;
}

std::string why_not_usable(const char* name, const ConstBuffer& buffer) {
  if (static_cast<int>(buffer.dtype) >= kDTypeCount)
    return fmt::format("`{}` has no known element type", name);
  if (buffer.data == nullptr && buffer.count > 0)
    return fmt::format("`{}` is null but has {} elements", name, buffer.count);
  if (buffer.count > kMostElements)
    return fmt::format("`{}` has {} elements, more than memory can hold", name, buffer.count);
  if (buffer.device.kind != DeviceKind::cuda) return fmt::format("`{}` is on no known kind of device", name);
  return fmt::format("`{}` is in the memory of cuda:{}, which this build cannot serve", name,
                     buffer.device.index);
}

void throw_inside_reduction(std::string_view call) {
  throw InvalidArgument(fmt::format("{}: a reduction of your own must not call kolo", call),
                        {.collective = std::string(call)});
}

std::string why_not_rounded(const Call& call) {
  if (call.collective != schedule::Collective::all_reduce) return "only all_reduce has one";
  if (call.in.dtype != DType::float32)
    return fmt::format("it rounds float32, not {}", name_of(call.in.dtype));
  const ReduceOp op = call.reduction.op();
  if (op == ReduceOp::sum || op == ReduceOp::average) return {};
  return fmt::format("it serves sum and average, not {}", call.reduction.name());
}

Status check_wire(const Call& call) {
  const Wire wire = call.options->wire.value_or(Wire::native);
  if (static_cast<int>(wire) >= kWireCount) return wrong(call, "`wire` is no known format");
  if (wire == Wire::native) return {};
  const std::string why = why_not_rounded(call);
  if (why.empty()) return {};
  return wrong(call, fmt::format("the wire format {} does not fit: {}", name_of(wire), why));
}

Status check(Call& call, int rank, int size, CountSpan counts, CountSpan recv_counts) {
  const auto own = static_cast<std::size_t>(rank);
  const bool is_root = rank == call.root;
  const bool uses_in = call.collective != schedule::Collective::broadcast &&
                       (call.collective != schedule::Collective::scatter || is_root);
  const bool uses_out =
      (call.collective != schedule::Collective::reduce && call.collective != schedule::Collective::gather) ||
      is_root;
  if (schedule::has_root(call.collective) && (call.root < 0 || call.root >= size)) {
    return wrong(call, fmt::format("root {} is not a rank of this communicator of {}", call.root, size));
  }
  if (schedule::is_reducing(call.collective) && call.reduction.custom_reduction() == nullptr &&
      call.reduction.op() >= ReduceOp::custom) {
    return wrong(call, call.reduction.op() == ReduceOp::custom
                           ? "`custom` is no operation by itself: pass what Reduction::custom() returns"
                           : "the reduction has no known operation");
  }
  if (uses_in && !is_usable(call.in)) return wrong(call, why_not_usable("in", call.in));
  if (uses_out && !is_usable(call.out)) return wrong(call, why_not_usable("out", call.out));
  if (call.options->stream != nullptr)
    return wrong(call, "`stream` orders calls on a device's memory, and the buffers are in the host's");
  if (uses_in && uses_out && call.in.dtype != call.out.dtype) {
    return wrong(call,
                 fmt::format("`in` is {} but `out` is {}", name_of(call.in.dtype), name_of(call.out.dtype)));
  }
  if (schedule::is_reducing(call.collective) && !knows(call.in.dtype, call.reduction.op())) {
    return wrong(call, why_not(call.in.dtype, call.reduction.op()));
  }
  if (const CustomReduction* custom = call.reduction.custom_reduction();
      custom != nullptr && custom->dtype.value_or(call.in.dtype) != call.in.dtype) {
    return wrong(call, fmt::format("the reduction {} is of {}, but `in` is {}", call.reduction.name(),
                                   name_of(*custom->dtype), name_of(call.in.dtype)));
  }
  if (call.reduction.factor() != nullptr && kernels::scale_function(call.in.dtype) == nullptr) {
    return wrong(
        call, fmt::format("there is no premultiplied_sum of {}: factors are for floating and complex numbers",
                          name_of(call.in.dtype)));
  }
  if (Status s = check_wire(call); !s.ok()) return s;
  if (call.options->timeout.count() < 0)
    return wrong(call, fmt::format("the timeout is negative: {} ns", call.options->timeout.count()));
  call.uneven = !counts.empty();
  switch (call.collective) {
    case schedule::Collective::all_reduce:
      call.count = call.in.count;
      if (Status s = expect(call, "out", call.out.count, call.in.count); !s.ok()) return s;
      return check_overlap(call, 0, 0);
    case schedule::Collective::reduce:
      call.count = call.in.count;
      if (!is_root) {
        call.out = Buffer(nullptr, 0, call.in.dtype);
        return {};
      }
      if (Status s = expect(call, "out", call.out.count, call.in.count); !s.ok()) return s;
      return check_overlap(call, 0, 0);
    case schedule::Collective::broadcast:
      call.count = call.out.count;
      call.in = call.out;
      call.in_place = true;
      return {};
    case schedule::Collective::reduce_scatter:
      if (Status s = divide(call, counts, call.in.count, size, "in", call.in_parts); !s.ok()) return s;
      call.count = sum(call.in_parts);
      call.out_parts = {call.in_parts[own]};
      if (Status s = expect(call, "in", call.in.count, call.count); !s.ok()) return s;
      if (Status s = expect(call, "out", call.out.count, call.in_parts[own]); !s.ok()) return s;
      return check_overlap(call, skip_to(call.in_parts, rank), 0);
    case schedule::Collective::all_gather:
      if (Status s = divide(call, counts, call.out.count, size, "out", call.out_parts); !s.ok()) return s;
      call.count = sum(call.out_parts);
      call.in_parts = {call.out_parts[own]};
      if (Status s = expect(call, "out", call.out.count, call.count); !s.ok()) return s;
      if (Status s = expect(call, "in", call.in.count, call.out_parts[own]); !s.ok()) return s;
      return check_overlap(call, 0, skip_to(call.out_parts, rank));
    case schedule::Collective::scatter:
      return check_rooted_parts(call, rank, size, counts, true);
    case schedule::Collective::gather:
      return check_rooted_parts(call, rank, size, counts, false);
    case schedule::Collective::all_to_all:
      return check_all_to_all(call, rank, size, counts, recv_counts);
    case schedule::Collective::barrier:
    case schedule::Collective::send_recv:
      return {};
  }
  return {};
}

}  // namespace kolo::comm
