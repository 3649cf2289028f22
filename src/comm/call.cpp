#include "comm/call.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/arithmetic.hpp"
#include "base/reduction.hpp"
#include "engine/operation.hpp"
#include "kernels/kernels.hpp"

namespace kolo::comm {
namespace {

/// A rank's own part of data that has one of each rank, in elements.
struct OwnPart {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  std::uint64_t total = 0;  ///< of all parts
};

/// Divides by the user's counts, which are appended to `parts`, or `total` evenly, which must go without
/// remainder.
Status divide(const Call& call, CountSpan counts, std::uint64_t total, int rank, int size, const char* name,
              std::vector<std::uint64_t>& parts, OwnPart& own) {
  const auto ranks = static_cast<std::uint64_t>(size);
  const auto before = static_cast<std::uint64_t>(rank);
  if (counts.empty()) {
    if (total > kMostElements) return wrong(call, "all parts together are more than memory can hold");
    if (total % ranks != 0) {
      return wrong(call,
                   fmt::format("{} elements of `{}` do not divide by {} ranks; pass the counts of the parts",
                               total, name, size));
    }
    own = {before * (total / ranks), total / ranks, total};
    return {};
  }
  if (counts.size() != ranks) {
    return wrong(call, fmt::format("{} counts were given for {} ranks", counts.size(), size));
  }
  for (std::uint64_t r = 0; r < ranks; ++r) {
    if (static_cast<std::int64_t>(counts[r]) < 0)
      return wrong(call, fmt::format("a count is {}", static_cast<std::int64_t>(counts[r])));
    if (r == before) own = {own.total, counts[r], own.total};
    if (__builtin_add_overflow(own.total, counts[r], &own.total) || own.total > kMostElements) {
      return wrong(call, "the counts add up to more than memory can hold");
    }
  }
  parts.insert(parts.end(), counts.begin(), counts.end());
  return {};
}

Status expect(const Call& call, const char* name, std::uint64_t has, std::uint64_t needs) {
  if (has == needs) return {};
  return wrong(call, fmt::format("`{}` has {} elements, but {} are needed", name, has, needs));
}

/// Finds out whether the two buffers are the same memory at the place where the collective may run in place
/// (`in_skip` elements into `in`, `out_skip` into `out`); any other overlap is wrong.
Status check_overlap(const Call& call, std::uint64_t in_skip, std::uint64_t out_skip, bool& in_place) {
  if (call.lists != nullptr) [[unlikely]]
    return check_overlap_of_lists(call, in_place);
  if (call.in.count == 0 || call.out.count == 0) return {};
  const auto element = size_of(call.out.dtype);
  const auto in = reinterpret_cast<std::uintptr_t>(call.in.data);
  const auto out = reinterpret_cast<std::uintptr_t>(call.out.data);
  if (in + in_skip * element == out + out_skip * element) {
    in_place = true;
    return {};
  }
  if (in < out + call.out.bytes() && out < in + call.in.bytes())
    return wrong(call, "`in` and `out` overlap, but not as this collective's in-place form does");
  return {};
}

/// One buffer holds a part of each rank, the other one this rank's part.
Status check_parts(const Call& call, int rank, int size, CountSpan counts,
                   const schedule::CollectiveTraits& traits, schedule::CallKey& key) {
  const bool scatters = traits.output_within_input();
  const char* const whole_name = scatters ? "in" : "out";
  const char* const own_name = scatters ? "out" : "in";
  const std::uint64_t whole_count = scatters ? call.in.count : call.out.count;
  const std::uint64_t own_count = scatters ? call.out.count : call.in.count;
  const auto ranks = static_cast<std::uint64_t>(size);
  OwnPart own;
  // Where only the root has the whole, a rank knows the total by its own part.
  const std::uint64_t total = !traits.has_root()                  ? whole_count
                              : own_count > kMostElements / ranks ? ~0ull
                                                                  : own_count * ranks;
  if (Status s =
          divide(call, counts, total, rank, size, traits.has_root() ? own_name : whole_name, key.parts, own);
      !s.ok())
    return s;
  // Ranks that have lists, and ranks that have counts, must agree.
  if (key.has_equal_parts()) key.parts.clear();
  key.count = own.total;
  const bool has_whole = !traits.has_root() || rank == call.root;
  if (has_whole) {
    if (Status s = expect(call, whole_name, whole_count, own.total); !s.ok()) return s;
  }
  if (Status s = expect(call, own_name, own_count, own.count); !s.ok() || !has_whole) return s;
  return check_overlap(call, scatters ? own.begin : 0, scatters ? 0 : own.begin, key.in_place);
}

Status check_all_to_all(const Call& call, int rank, int size, CountSpan counts, CountSpan recv_counts,
                        schedule::CallKey& key) {
  if (counts.empty() != recv_counts.empty())
    return wrong(call, "pass the counts of both directions, or of none");
  OwnPart sent, received;
  if (Status s = divide(call, counts, call.in.count, rank, size, "in", key.parts, sent); !s.ok()) return s;
  if (Status s = divide(call, recv_counts, call.out.count, rank, size, "out", key.parts, received); !s.ok())
    return s;
  if (Status s = expect(call, "in", call.in.count, sent.total); !s.ok()) return s;
  if (Status s = expect(call, "out", call.out.count, received.total); !s.ok()) return s;
  if (sent.count != received.count) {
    return wrong(
        call, fmt::format("this rank sends itself {} elements but receives {}", sent.count, received.count));
  }
  // The counts of one rank say nothing about those of another: only the messages can be compared.
  key.count = counts.empty() ? call.in.count : 0;
  key.in_place = call.one_buffer;
  if (call.one_buffer) return {};
  if (Status s = check_overlap(call, 0, 0, key.in_place); !s.ok()) return s;
  if (key.in_place) return wrong(call, "`in` and `out` are the same memory; use the form with one buffer");
  return {};
}

/// Whether the buffers have the lengths that the collective needs, and overlap as it may.
Status check_lengths(const Call& call, int rank, int size, CountSpan counts, CountSpan recv_counts,
                     const schedule::CollectiveTraits& traits, schedule::CallKey& key) {
  if (traits.output_within_input() || traits.input_within_output())
    return check_parts(call, rank, size, counts, traits, key);
  if (traits.input == schedule::Parts::per_rank)
    return check_all_to_all(call, rank, size, counts, recv_counts, key);
  if (!traits.has_input(rank == call.root) || traits.placement == schedule::Placement::in_place) {
    key.count = call.out.count;
    return {};
  }
  key.count = call.in.count;
  if (!traits.has_output(rank == call.root)) return {};
  if (Status s = expect(call, "out", call.out.count, key.count); !s.ok()) return s;
  return check_overlap(call, 0, 0, key.in_place);
}

}  // namespace

Status wrong(std::string_view call, const std::string& what) {
  return Status(Code::invalid_argument, fmt::format("{}: {}", call, what), {.collective = std::string(call)});
}

Status wrong(const Call& call, const std::string& what) {
  return wrong(schedule::name_of(call.collective), what);
}

Unscaled place_scaled_input(Call& call, schedule::CallKey& key) {
  const Unscaled unscaled{call.in.data, *call.reduction.factor()};
  key.in_place = call.out.count == call.in.count;
  if (key.in_place) {
    call.in = call.out;
    call.reduction = ReduceOp::sum;
  } else {
    const auto memory = std::make_shared_for_overwrite<std::byte[]>(call.in.bytes());
    call.in.data = memory.get();
    call.reduction = reduction_that_keeps(ReduceOp::sum, memory);
  }
  return unscaled;
}

void scale(const Unscaled& unscaled, const Call& call) {
  const DefaultArithmetic arithmetic;
  const kernels::ScaleFn scale = kernels::scale_function(call.in.dtype);
  auto* to = static_cast<std::byte*>(const_cast<void*>(call.in.data));
  if (call.lists == nullptr || !call.lists->in)
    return scale(to, unscaled.data, call.in.count, unscaled.factor);
  const auto parts = std::exchange(call.lists->in, {});
  for (const ConstBuffer& part : *parts) {
    if (part.count > 0) scale(to, part.data, part.count, unscaled.factor);
    to += part.bytes();
  }
}

bool is_on_device(const Call& call) {
  const auto is_there = [](const auto& buffer) { return buffer.device.kind == DeviceKind::cuda; };
  const Lists* const lists = call.lists;
  return is_there(call.in) || is_there(call.out) ||
         (lists != nullptr && ((lists->in && std::ranges::any_of(*lists->in, is_there)) ||
                               (lists->out && std::ranges::any_of(*lists->out, is_there))));
}

std::string why_not_usable(std::string_view name, const ConstBuffer& buffer) {
  if (static_cast<int>(buffer.dtype) >= kDTypeCount)
    return fmt::format("`{}` has no known element type", name);
  if (buffer.data == nullptr && buffer.count > 0)
    return fmt::format("`{}` is null but has {} elements", name, buffer.count);
  if (buffer.count > kMostElements)
    return fmt::format("`{}` has {} elements, more than memory can hold", name, buffer.count);
  if (buffer.device.kind != DeviceKind::cuda) return fmt::format("`{}` is on no known kind of device", name);
  return fmt::format("`{}` is in the memory of cuda:{}, where this call cannot use it", name,
                     buffer.device.index);
}

void throw_inside_reduction(std::string_view call) {
  throw InvalidArgumentError(fmt::format("{}: a reduction of your own must not call kolo", call),
                             {.collective = std::string(call)});
}

std::string why_not_rounded(const schedule::CallKey& key) {
  if (key.collective != schedule::Collective::all_reduce) return "only all_reduce has one";
  if (key.dtype != DType::float32) return fmt::format("it rounds float32, not {}", name_of(key.dtype));
  if (key.op == ReduceOp::sum || key.op == ReduceOp::average) return {};
  return fmt::format("it serves sum and average, not {}", key.custom.empty() ? name_of(key.op) : key.custom);
}

Status check_wire(const schedule::CallKey& key, Wire wire) {
  if (static_cast<int>(wire) >= kWireCount)
    return wrong(schedule::name_of(key.collective), "`wire` is no known format");
  if (wire == Wire::native) return {};
  const std::string why = why_not_rounded(key);
  if (why.empty()) return {};
  return wrong(schedule::name_of(key.collective),
               fmt::format("the wire format {} does not fit: {}", name_of(wire), why));
}

Status check(Call& call, int rank, int size, CountSpan counts, CountSpan recv_counts,
             schedule::CallKey& key) {
  if (call.lists != nullptr && !call.lists->are_read) [[unlikely]] {
    if (Status s = read_lists(call, rank, size, counts, recv_counts); !s.ok()) return s;
    return check(call, rank, size, call.lists->counts, call.lists->recv_counts, key);
  }
  const schedule::CollectiveTraits& traits = schedule::traits_of(call.collective);
  const bool is_root = rank == call.root;
  const bool has_in = traits.has_input(is_root);
  const bool has_out = traits.has_output(is_root);
  // What is always in place has one buffer, `out`.
  const bool uses_in = has_in && traits.placement != schedule::Placement::in_place;
  if (traits.has_root() && (call.root < 0 || call.root >= size)) {
    return wrong(call, fmt::format("root {} is not a rank of this communicator of {}", call.root, size));
  }
  const CustomReduction* const custom = call.reduction.custom_reduction();
  if (traits.reduces && custom == nullptr && call.reduction.op() >= ReduceOp::custom) {
    return wrong(call, call.reduction.op() == ReduceOp::custom
                           ? "`custom` is no operation by itself: pass what Reduction::custom() returns"
                           : "the reduction has no known operation");
  }
  if (uses_in && !is_usable(call.in)) return wrong(call, why_not_usable("in", call.in));
  if (has_out && !is_usable(call.out)) return wrong(call, why_not_usable("out", call.out));
  if (call.options->stream != nullptr) return wrong(call, kNoDeviceForStream);
  if (uses_in && has_out && call.in.dtype != call.out.dtype) {
    return wrong(call,
                 fmt::format("`in` is {} but `out` is {}", name_of(call.in.dtype), name_of(call.out.dtype)));
  }
  if (traits.reduces && !knows(call.in.dtype, call.reduction.op()))
    return wrong(call, why_not(call.in.dtype, call.reduction.op()));
  if (traits.prefix && call.reduction.op() == ReduceOp::average)
    return wrong(call, "a prefix has no average: sum, and divide by the number of ranks that yours has");
  if (custom != nullptr && custom->dtype.value_or(call.in.dtype) != call.in.dtype) {
    return wrong(call, fmt::format("the reduction {} is of {}, but `in` is {}", call.reduction.name(),
                                   name_of(*custom->dtype), name_of(call.in.dtype)));
  }
  if (call.reduction.factor() != nullptr && kernels::scale_function(call.in.dtype) == nullptr) {
    return wrong(
        call, fmt::format("there is no premultiplied_sum of {}: factors are for floating and complex numbers",
                          name_of(call.in.dtype)));
  }
  if (call.options->timeout.count() < 0)
    return wrong(call, fmt::format("the timeout is negative: {} ns", call.options->timeout.count()));
  key.collective = call.collective;
  key.dtype = uses_in ? call.in.dtype : call.out.dtype;
  key.in_place = traits.placement == schedule::Placement::in_place;
  if (key.in_place) {
    call.in = call.out;
  } else if (!has_in) {
    call.in = ConstBuffer(nullptr, 0, key.dtype);
  }
  if (!has_out) call.out = Buffer(nullptr, 0, key.dtype);
  if (traits.has_root()) key.root = call.root;
  if (traits.reduces) key.op = call.reduction.op();
  if (traits.reduces && custom != nullptr) {
    key.custom = Name(custom->name);
    key.commutative = custom->commutative;
  }
  if (call.options->wire) {
    if (Status s = check_wire(key, *call.options->wire); !s.ok()) return s;
  }
  Status status = check_lengths(call, rank, size, counts, recv_counts, traits, key);
  // A scaled average runs on a copy.
  if (key.op == ReduceOp::average &&
      engine::is_scaled_average(key.op, key.dtype, static_cast<std::size_t>(size)))
    key.in_place = false;
  return status;
}

}  // namespace kolo::comm
