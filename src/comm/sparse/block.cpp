#include "comm/sparse/block.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

namespace kolo::comm::sparse {
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

/// Calls `call` with a function that copies a row: a single element in one instruction, without a call of
/// memcpy.
template <typename Call>
auto with_copy(std::size_t row_bytes, Call call) {
  const auto by = [](auto word) {
    return [](std::byte* to, const std::byte* from) { std::memcpy(to, from, sizeof word); };
  };
  switch (row_bytes) {
    case 1:
      return call(by(std::uint8_t{}));
    case 2:
      return call(by(std::uint16_t{}));
    case 4:
      return call(by(std::uint32_t{}));
    case 8:
      return call(by(std::uint64_t{}));
    default:
      return call([row_bytes](std::byte* to, const std::byte* from) { std::memcpy(to, from, row_bytes); });
  }
}

/// a + b. Rows of equal positions are first collected, because the kernel adds long arrays at many times the
/// speed of short ones.
template <typename Copy>
SparseBlock merge(const SparseBlock& a, const SparseBlock& b, const RowKind& kind, Copy copy) {
  SparseBlock out{a.length, {}, {}};
  const std::size_t a_count = a.positions.size(), b_count = b.positions.size();
  if (a.positions == b.positions) {
    out.positions = a.positions;
    out.values.resize(a.values.size());
    kind.add(out.values.data(), a.values.data(), b.values.data(), a_count * kind.width);
    return out;
  }
  const std::size_t row = kind.bytes();
  out.positions.resize(a_count + b_count);
  out.values.resize((a_count + b_count) * row);
  std::vector<std::size_t> met;  // where in `out`: positions that both have
  std::vector<std::byte> left, right;
  const auto collect = [&](std::vector<std::byte>& rows, const std::byte* from) {
    rows.resize(rows.size() + row);
    copy(rows.data() + rows.size() - row, from);
  };
  const std::byte* from_a = a.values.data();
  const std::byte* from_b = b.values.data();
  std::byte* to = out.values.data();
  std::size_t i = 0, j = 0, n = 0;
  for (; i < a_count && j < b_count; ++n, to += row) {
    const std::uint64_t at_a = a.positions[i], at_b = b.positions[j];
    out.positions[n] = std::min(at_a, at_b);
    if (at_a == at_b) {
      met.push_back(n);
      collect(left, from_a);
      collect(right, from_b);
    } else {
      copy(to, at_a < at_b ? from_a : from_b);
    }
    const bool takes_a = at_a <= at_b, takes_b = at_b <= at_a;
    i += takes_a ? 1 : 0;
    from_a += takes_a ? row : 0;
    j += takes_b ? 1 : 0;
    from_b += takes_b ? row : 0;
  }
  const auto append_rest = [&](const SparseBlock& block, std::size_t next, const std::byte* from) {
    const std::size_t count = block.positions.size() - next;
    std::copy_n(block.positions.data() + next, count, out.positions.data() + n);
    std::copy_n(from, count * row, to);
    n += count;
  };
  i < a_count ? append_rest(a, i, from_a) : append_rest(b, j, from_b);
  out.positions.resize(n);
  out.values.resize(n * row);
  kind.add(left.data(), left.data(), right.data(), met.size() * kind.width);
  for (std::size_t k = 0; k < met.size(); ++k) copy(out.values.data() + met[k] * row, left.data() + k * row);
  return out;
}

template <typename Copy>
std::vector<SparseBlock> divide(const SparseBlock& block, std::uint64_t parts, std::size_t row, Copy copy) {
  std::vector<std::size_t> counts(parts);
  for (const std::uint64_t position : block.positions) ++counts[position % parts];
  std::vector<SparseBlock> out(parts);
  for (std::uint64_t part = 0; part < parts; ++part) {
    out[part].length = part_length(block.length, static_cast<int>(parts), static_cast<int>(part));
    out[part].positions.resize(counts[part]);
    out[part].values.resize(counts[part] * row);
    counts[part] = 0;
  }
  for (std::size_t i = 0; i < block.positions.size(); ++i) {
    const std::uint64_t part = block.positions[i] % parts;
    const std::size_t n = counts[part]++;
    out[part].positions[n] = block.positions[i] / parts;
    copy(out[part].values.data() + n * row, block.values.data() + i * row);
  }
  return out;
}

}  // namespace

std::uint64_t part_length(std::uint64_t length, int parts, int part) {
  const auto d = static_cast<std::uint64_t>(parts);
  return length / d + (static_cast<std::uint64_t>(part) < length % d ? 1 : 0);
}

std::vector<SparseBlock> divide(const SparseBlock& block, int parts, const RowKind& kind) {
  return with_copy(kind.bytes(), [&](auto copy) {
    return divide(block, static_cast<std::uint64_t>(parts), kind.bytes(), copy);
  });
}

SparseBlock join(std::vector<SparseBlock> parts, std::uint64_t length, const RowKind& kind) {
  const std::uint64_t d = parts.size();
  for (std::uint64_t part = 0; part < d; ++part) {
    parts[part].length = length;
    for (std::uint64_t& position : parts[part].positions) position = position * d + part;
  }
  return add_up(std::move(parts), kind);
}

SparseBlock add_up(std::vector<SparseBlock> blocks, const RowKind& kind) {
  while (blocks.size() > 1) {
    std::vector<SparseBlock> sums;
    for (std::size_t i = 0; i + 1 < blocks.size(); i += 2) {
      sums.push_back(
          with_copy(kind.bytes(), [&](auto copy) { return merge(blocks[i], blocks[i + 1], kind, copy); }));
    }
    if (blocks.size() % 2 == 1) sums.push_back(std::move(blocks.back()));
    blocks = std::move(sums);
  }
  return std::move(blocks.front());
}

std::uint64_t packed_bytes(std::uint64_t count, std::uint64_t length, std::size_t row_bytes) {
  return position_bytes(count, length) + count * row_bytes;
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

void pack(const SparseBlock& block, std::size_t row_bytes, std::vector<std::byte>& out) {
  const std::uint64_t count = block.positions.size();
  out.reserve(out.size() + packed_bytes(count, block.length, row_bytes));
  switch (form_of(count, block.length)) {
    case Form::full:
      break;
    case Form::bitmap: {
      const auto bits = bitmap(block);
      append(out, bits.data(), bits.size());
      break;
    }
    case Form::narrow_list: {
      std::vector<std::uint32_t> narrow(count);
      std::transform(block.positions.begin(), block.positions.end(), narrow.begin(),
                     [](std::uint64_t position) { return static_cast<std::uint32_t>(position); });
      append(out, narrow.data(), count * sizeof(std::uint32_t));
      break;
    }
    case Form::wide_list:
      append(out, block.positions.data(), count * sizeof(std::uint64_t));
      break;
  }
  append(out, block.values.data(), block.values.size());
}

bool unpack(std::span<const std::byte> bytes, std::uint64_t count, std::size_t row_bytes, SparseBlock& out) {
  if (count > out.length || bytes.size() != packed_bytes(count, out.length, row_bytes)) return false;
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

}  // namespace kolo::comm::sparse
