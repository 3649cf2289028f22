#include "comm/device/pieces.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace kolo::comm {
namespace {

using schedule::Parts;

/// Elements of each part of all ranks.
std::vector<std::uint64_t> counts_of(const schedule::CallKey& key, int size, bool is_output) {
  const auto ranks = static_cast<std::size_t>(size);
  if (!key.is_uneven()) return std::vector<std::uint64_t>(ranks, key.count / ranks);
  // An all_to_all has what it sends, then what it receives.
  const std::size_t begin = is_output && key.parts.size() > ranks ? ranks : 0;
  const auto first = key.parts.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + size};
}

template <typename B>
std::vector<B> divide(const B& whole, const std::vector<std::uint64_t>& counts) {
  std::vector<B> parts;
  std::size_t offset = 0;
  for (const std::uint64_t count : counts) {
    auto part = whole;
    using Byte = std::conditional_t<std::is_same_v<B, Buffer>, std::byte, const std::byte>;
    part.data = static_cast<Byte*>(whole.data) + offset;
    part.count = count;
    offset += part.bytes();
    parts.push_back(part);
  }
  return parts;
}

template <typename B>
std::uint64_t elements(const std::vector<B>& parts, Columns columns) {
  std::uint64_t total = 0;
  for (const B& part : parts) total += columns.of(part.count).size();
  return total;
}

}  // namespace

CallParts CallParts::of(const Call& call, const schedule::CallKey& key, int rank, int size) {
  const schedule::CollectiveTraits& traits = schedule::traits_of(key.collective);
  CallParts parts;
  const bool is_root = rank == call.root;
  const bool is_divided = traits.input == Parts::per_rank || traits.output == Parts::per_rank;
  if (is_divided) {
    parts.counts = counts_of(key, size, false);
    if (traits.input == traits.output) parts.recv_counts = counts_of(key, size, true);
    parts.is_known_to_all = !key.is_uneven() || traits.input != traits.output;
    for (const auto* counts : {&parts.counts, &parts.recv_counts})
      for (const std::uint64_t count : *counts) parts.longest = std::max(parts.longest, count);
  } else {
    parts.longest = key.count;
  }
  if (traits.has_input(is_root)) {
    if (call.lists != nullptr && call.lists->in) {
      parts.in.assign(call.lists->in->begin(), call.lists->in->end());
    } else {
      parts.in = traits.input == Parts::per_rank ? divide(call.in, parts.counts) : std::vector{call.in};
    }
  }
  // A root that has the data already gets nothing.
  const bool is_unchanged = traits.placement == schedule::Placement::in_place && traits.has_root() && is_root;
  if (traits.has_output(is_root) && !is_unchanged) {
    if (call.lists != nullptr && call.lists->out) {
      parts.out.assign(call.lists->out->begin(), call.lists->out->end());
    } else if (traits.output == Parts::per_rank) {
      parts.out = divide(call.out, parts.recv_counts.empty() ? parts.counts : parts.recv_counts);
    } else {
      parts.out = {call.out};
    }
  }
  parts.are_listed = call.lists != nullptr;
  parts.is_one = !is_divided;
  return parts;
}

std::uint64_t CallParts::input(Columns columns) const {
  return elements(in, columns);
}
std::uint64_t CallParts::output(Columns columns) const {
  return elements(out, columns);
}

}  // namespace kolo::comm
