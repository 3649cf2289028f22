#include "comm/sparse/block.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

namespace kolo::sparse {
namespace {

enum class Form { full, bitmap, narrow_list, wide_list };

std::uint64_t bitmap_bytes(std::uint64_t length) {
  return length / 8 + (length % 8 != 0);
}

Form form_of(std::uint64_t count, std::uint64_t length) {
  if (count == length) return Form::full;
  const bool narrow = length <= std::uint64_t{1} << 32;
  if (bitmap_bytes(length) / (narrow ? 4 : 8) < count) return Form::bitmap;
  return narrow ? Form::narrow_list : Form::wide_list;
}

std::uint64_t position_bytes(std::uint64_t count, std::uint64_t length) {
  switch (form_of(count, length)) {
    case Form::full:
      return 0;
    case Form::bitmap:
      return bitmap_bytes(length);
    case Form::narrow_list:
      return count * 4;
    case Form::wide_list:
      return count * 8;
  }
  return 0;
}

void append(std::vector<std::byte>& out, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  out.insert(out.end(), from, from + bytes);
}

template <typename Index>
std::vector<std::uint64_t> read_list(const std::byte* at, std::uint64_t count) {
  std::vector<std::uint64_t> positions(count);
  for (std::uint64_t& position : positions) {
    Index index;
    std::memcpy(&index, at, sizeof index);
    position = index;
    at += sizeof index;
  }
  return positions;
}

/// a + b. `Word` is as long as an element, so that single values are moved without a call.
template <typename Word>
SparseBlock merge(const SparseBlock& a, const SparseBlock& b, kernels::ReduceFn add) {
  SparseBlock out{a.length, {}, {}};
  out.positions.resize(a.positions.size() + b.positions.size());
  out.values.resize(out.positions.size() * sizeof(Word));
  std::size_t i = 0, j = 0, n = 0;
  const auto take = [&](const SparseBlock& from, std::size_t& at) {
    out.positions[n] = from.positions[at];
    std::memcpy(out.values.data() + n * sizeof(Word), from.values.data() + at * sizeof(Word), sizeof(Word));
    ++at;
    ++n;
  };
  while (i < a.positions.size() && j < b.positions.size()) {
    if (a.positions[i] < b.positions[j]) {
      take(a, i);
    } else if (b.positions[j] < a.positions[i]) {
      take(b, j);
    } else {
      std::size_t run = 0;  // one call of the kernel for neighbours that both have
      for (; i + run < a.positions.size() && j + run < b.positions.size(); ++run) {
        if (a.positions[i + run] != b.positions[j + run]) break;
        out.positions[n + run] = a.positions[i + run];
      }
      add(out.values.data() + n * sizeof(Word), a.values.data() + i * sizeof(Word),
          b.values.data() + j * sizeof(Word), run);
      i += run;
      j += run;
      n += run;
    }
  }
  while (i < a.positions.size()) take(a, i);
  while (j < b.positions.size()) take(b, j);
  out.positions.resize(n);
  out.values.resize(n * sizeof(Word));
  return out;
}

SparseBlock merge(const SparseBlock& a, const SparseBlock& b, const ElementKind& kind) {
  switch (kind.bytes) {
    case 1:
      return merge<std::uint8_t>(a, b, kind.add);
    case 2:
      return merge<std::uint16_t>(a, b, kind.add);
    case 4:
      return merge<std::uint32_t>(a, b, kind.add);
    default:
      return merge<std::uint64_t>(a, b, kind.add);
  }
}

}  // namespace

std::uint64_t part_length(std::uint64_t length, int parts, int part) {
  const auto d = static_cast<std::uint64_t>(parts);
  return length / d + (static_cast<std::uint64_t>(part) < length % d ? 1 : 0);
}

std::vector<SparseBlock> divide(const SparseBlock& block, int parts, const ElementKind& kind) {
  const auto d = static_cast<std::uint64_t>(parts);
  std::vector<SparseBlock> out(d);
  for (int part = 0; part < parts; ++part) {
    SparseBlock& one = out[static_cast<std::size_t>(part)];
    one.length = part_length(block.length, parts, part);
    one.positions.reserve(block.positions.size() / d + 1);
    one.values.reserve((block.positions.size() / d + 1) * kind.bytes);
  }
  for (std::size_t i = 0; i < block.positions.size(); ++i) {
    SparseBlock& part = out[block.positions[i] % d];
    part.positions.push_back(block.positions[i] / d);
    append(part.values, block.values.data() + i * kind.bytes, kind.bytes);
  }
  return out;
}

SparseBlock join(std::vector<SparseBlock> parts, std::uint64_t length, const ElementKind& kind) {
  const std::uint64_t d = parts.size();
  for (std::uint64_t part = 0; part < d; ++part) {
    parts[part].length = length;
    for (std::uint64_t& position : parts[part].positions) position = position * d + part;
  }
  return add_up(std::move(parts), kind);
}

SparseBlock add_up(std::vector<SparseBlock> blocks, const ElementKind& kind) {
  while (blocks.size() > 1) {
    std::vector<SparseBlock> sums;
    for (std::size_t i = 0; i + 1 < blocks.size(); i += 2) {
      sums.push_back(merge(blocks[i], blocks[i + 1], kind));
    }
    if (blocks.size() % 2 == 1) sums.push_back(std::move(blocks.back()));
    blocks = std::move(sums);
  }
  return std::move(blocks.front());
}

std::uint64_t packed_bytes(std::uint64_t count, std::uint64_t length, std::size_t element_bytes) {
  return position_bytes(count, length) + count * element_bytes;
}

std::vector<std::byte> bitmap(const SparseBlock& block) {
  std::vector<std::byte> bits(bitmap_bytes(block.length));
  for (const std::uint64_t position : block.positions) {
    bits[position / 8] |= std::byte{1} << static_cast<int>(position % 8);
  }
  return bits;
}

std::vector<std::uint64_t> positions_of(std::span<const std::byte> bitmap, std::uint64_t length) {
  std::vector<std::uint64_t> positions;
  for (std::size_t i = 0; i < bitmap.size(); ++i) {
    for (auto bits = std::to_integer<unsigned>(bitmap[i]); bits != 0; bits &= bits - 1) {
      const std::uint64_t position = i * 8 + static_cast<unsigned>(std::countr_zero(bits));
      if (position < length) positions.push_back(position);
    }
  }
  return positions;
}

void pack(const SparseBlock& block, std::size_t element_bytes, std::vector<std::byte>& out) {
  const std::uint64_t count = block.positions.size();
  out.reserve(out.size() + packed_bytes(count, block.length, element_bytes));
  switch (form_of(count, block.length)) {
    case Form::full:
      break;
    case Form::bitmap: {
      const auto bits = bitmap(block);
      append(out, bits.data(), bits.size());
      break;
    }
    case Form::narrow_list:
      for (const std::uint64_t position : block.positions) {
        const auto narrow = static_cast<std::uint32_t>(position);
        append(out, &narrow, sizeof narrow);
      }
      break;
    case Form::wide_list:
      append(out, block.positions.data(), count * sizeof(std::uint64_t));
      break;
  }
  append(out, block.values.data(), block.values.size());
}

bool unpack(std::span<const std::byte> bytes, std::uint64_t count, std::size_t element_bytes,
            SparseBlock& out) {
  if (count > out.length || bytes.size() != packed_bytes(count, out.length, element_bytes)) return false;
  const std::uint64_t head = position_bytes(count, out.length);
  switch (form_of(count, out.length)) {
    case Form::full:
      out.positions.resize(count);
      std::iota(out.positions.begin(), out.positions.end(), std::uint64_t{0});
      break;
    case Form::bitmap:
      out.positions = positions_of(bytes.first(head), out.length);
      break;
    case Form::narrow_list:
      out.positions = read_list<std::uint32_t>(bytes.data(), count);
      break;
    case Form::wide_list:
      out.positions = read_list<std::uint64_t>(bytes.data(), count);
      break;
  }
  out.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(head), bytes.end());
  if (out.positions.size() != count) return false;
  const auto misplaced =
      std::adjacent_find(out.positions.begin(), out.positions.end(), std::greater_equal<>());
  return misplaced == out.positions.end() && (count == 0 || out.positions.back() < out.length);
}

}  // namespace kolo::sparse
