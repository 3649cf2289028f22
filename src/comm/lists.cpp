#include "comm/lists.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "comm/call.hpp"

namespace kolo::comm {
namespace {

/// `counts` as the user gave them; `lengths` if they are not equal.
template <typename B>
Status read_list(const Call& call, const char* name, std::span<const B> list, std::size_t size,
                 std::vector<std::uint64_t>& lengths, CountSpan& counts, B& whole) {
  if (list.size() != size)
    return wrong(call, fmt::format("`{}` has {} buffers for {} ranks", name, list.size(), size));
  whole = B(nullptr, 0, list[0].dtype);
  for (std::size_t r = 0; r < size; ++r) {
    const B& part = list[r];
    if (!is_usable(part)) return wrong(call, why_not_usable(fmt::format("{}[{}]", name, r), part));
    if (part.dtype != whole.dtype) {
      return wrong(call, fmt::format("`{0}[{1}]` is {2} but `{0}[0]` is {3}", name, r, name_of(part.dtype),
                                     name_of(whole.dtype)));
    }
    if (!counts.empty() && (counts.size() != size || counts[r] != part.count))
      return wrong(call, fmt::format("the counts are not the lengths of the buffers in `{}`", name));
    whole.count += part.count;
    if (whole.count > kMostElements)
      return wrong(call, fmt::format("the buffers in `{}` are more than memory can hold", name));
    if (whole.data == nullptr) whole.data = part.data;
  }
  const bool is_even = std::ranges::all_of(list, [&](const B& part) { return part.count == list[0].count; });
  // The lengths of one rank's parts say nothing about those of another if all send to all.
  if (is_even && call.collective != schedule::Collective::all_to_all) {
    counts = {};
  } else {
    for (const B& part : list) lengths.push_back(part.count);
    counts = lengths;
  }
  return {};
}

}  // namespace

Status read_lists(Call& call, int rank, int size, CountSpan counts, CountSpan recv_counts) {
  Lists& lists = *call.lists;
  lists.are_read = true;
  lists.own = static_cast<std::size_t>(rank);
  lists.counts = counts;
  lists.recv_counts = recv_counts;
  if (schedule::has_root(call.collective) && rank != call.root) lists.in = {}, lists.out = {};
  const auto ranks = static_cast<std::size_t>(size);
  if (lists.in) {
    if (Status s = read_list(call, "in", *lists.in, ranks, lists.in_lengths, lists.counts, call.in); !s.ok())
      return s;
  }
  if (!lists.out) return {};
  return read_list(call, "out", *lists.out, ranks, lists.out_lengths,
                   lists.in ? lists.recv_counts : lists.counts, call.out);
}

Status check_overlap_of_lists(const Call& call, bool& in_place) {
  const Lists& lists = *call.lists;
  const std::span<const ConstBuffer> in = lists.in.value_or(std::span(&call.in, 1));
  const std::span<const Buffer> out = lists.out.value_or(std::span(&call.out, 1));
  const ConstBuffer& own_in = lists.in ? in[lists.own] : in[0];
  const Buffer& own_out = lists.out ? out[lists.own] : out[0];
  in_place =
      call.collective != schedule::Collective::all_to_all && own_in.count > 0 && own_in.data == own_out.data;
  struct Range {
    std::uintptr_t begin, end;
    bool is_written;
  };
  static thread_local std::vector<Range> all;
  all.clear();
  const auto add = [&](const ConstBuffer& buffer, bool is_written) {
    const auto begin = reinterpret_cast<std::uintptr_t>(buffer.data);
    if (buffer.count > 0) all.push_back({begin, begin + buffer.bytes(), is_written});
  };
  for (const ConstBuffer& part : in) {
    if (!in_place || &part != &own_in) add(part, false);
  }
  for (const Buffer& part : out) add(part, true);
  std::ranges::sort(all, {}, &Range::begin);
  std::uintptr_t end_of_read = 0, end_of_written = 0;
  for (const auto& [begin, end, is_written] : all) {
    if (is_written && begin < end_of_written) return wrong(call, "buffers in `out` overlap each other");
    if (begin < (is_written ? end_of_read : end_of_written))
      return wrong(call, "`in` and `out` overlap, but not as this collective's in-place form does");
    std::uintptr_t& last = is_written ? end_of_written : end_of_read;
    last = std::max(last, end);
  }
  return {};
}

void find_parts(const Lists& lists, engine::Listed& parts) {
  const auto find = [](const auto& list, std::vector<std::byte*>& found) {
    found.clear();
    if (!list) return;
    for (const auto& part : *list) found.push_back(static_cast<std::byte*>(const_cast<void*>(part.data)));
  };
  find(lists.in, parts.input);
  find(lists.out, parts.output);
}

}  // namespace kolo::comm
