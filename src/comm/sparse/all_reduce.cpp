#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "algorithms/algorithm.hpp"
#include "base/arithmetic.hpp"
#include "base/hash.hpp"
#include "comm/call.hpp"
#include "comm/sparse/block.hpp"
#include "comm/sparse/layers.hpp"
#include "kolo/sparse.hpp"
#include "selection/topology.hpp"

namespace kolo {
namespace {

using comm::sparse::RowKind;
using comm::sparse::SparseBlock;

constexpr const char* kName = "all_reduce_sparse";

[[noreturn]] void refuse(int rank, const std::string& what) {
  throw InvalidArgumentError(fmt::format("rank {}: {}: {}", rank, kName, what),
                             {.peer = rank, .collective = kName});
}

void check(int rank, std::uint64_t length, std::span<const std::uint64_t> indices, const ConstBuffer& values,
           std::uint64_t width) {
  const auto refuse = [rank](const std::string& what) { kolo::refuse(rank, what); };
  if (!comm::is_usable(values)) refuse(comm::why_not_usable("values", values));
  if (width == 0) refuse("a width of 0 elements");
  if (length > comm::kMostElements / width) {
    refuse(fmt::format("length {}{} is more than memory can hold", length,
                       width == 1 ? "" : fmt::format(" of {} elements each", width)));
  }
  if (values.count % width != 0 || indices.size() != values.count / width) {
    refuse(fmt::format("{} indices but {} values{}", indices.size(), values.count,
                       width == 1 ? "" : fmt::format(" in rows of {}", width)));
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= length) refuse(fmt::format("index {} is not below the length {}", indices[i], length));
    if (i == 0 || indices[i] > indices[i - 1]) continue;
    refuse(indices[i] == indices[i - 1]
               ? fmt::format("index {} occurs twice", indices[i])
               : fmt::format("indices are not ascending: {} after {}", indices[i], indices[i - 1]));
  }
}

/// What every rank tells all ranks before data moves.
using Words = std::array<std::uint64_t, 4>;

/// The words of all ranks, by rank.
std::vector<Words> tell_all(Communicator& communicator, const Words& mine) {
  std::vector<Words> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(mine, Buffer(all.data(), all.size() * mine.size(), DType::uint64));
  return all;
}

/// Throws on all ranks or on none, because all hold the same words.
template <typename Describe>
void expect_same(const std::vector<Words>& all, std::size_t words, Describe describe) {
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (std::equal(all[r].begin(), all[r].begin() + static_cast<std::ptrdiff_t>(words), all[0].begin()))
      continue;
    throw MismatchError(fmt::format("{}: the ranks disagree: rank 0 {}, rank {} {}", kName, describe(all[0]),
                                    r, describe(all[r])),
                        {.peer = static_cast<int>(r), .collective = kName});
  }
}

std::uint64_t total(const std::vector<std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

/// The blocks of the group's members, which lie in `bytes` one after the other.
std::vector<SparseBlock> unpack_all(std::span<const std::byte> bytes,
                                    const std::vector<std::uint64_t>& counts,
                                    const std::vector<std::uint64_t>& lengths, const RowKind& kind) {
  std::vector<SparseBlock> blocks;
  for (std::size_t member = 0; member < counts.size(); ++member) {
    SparseBlock block{lengths[member], {}, {}};
    const std::uint64_t size = comm::sparse::packed_bytes(counts[member], lengths[member], kind.bytes());
    if (!comm::sparse::unpack(bytes.first(size), counts[member], kind.bytes(), block)) {
      throw MismatchError(fmt::format("{}: member {} of a group sent what is no block", kName, member),
                          {.collective = kName});
    }
    bytes = bytes.subspan(size);
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::vector<std::uint64_t> packed_sizes(const std::vector<std::uint64_t>& counts,
                                        const std::vector<std::uint64_t>& lengths, std::size_t row_bytes) {
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > lengths[i]) {
      throw MismatchError(fmt::format("{}: a block of {} rows has {} places", kName, counts[i], lengths[i]),
                          {.collective = kName});
    }
    sizes.push_back(comm::sparse::packed_bytes(counts[i], lengths[i], row_bytes));
  }
  return sizes;
}

/// Down one layer: gives every member of the group its part of `block`, and sums the parts that all members
/// have for this rank.
SparseBlock exchange_parts(Communicator& group, const SparseBlock& block, const RowKind& kind) {
  const std::vector<SparseBlock> parts = comm::sparse::divide(block, group.size(), kind);
  const std::size_t members = parts.size();
  const std::uint64_t own_length = parts[static_cast<std::size_t>(group.rank())].length;
  std::vector<std::uint64_t> counts, lengths;
  std::vector<std::byte> out;
  for (const SparseBlock& part : parts) {
    counts.push_back(part.positions.size());
    lengths.push_back(part.length);
    comm::sparse::pack(part, kind.bytes(), out);
  }
  std::vector<std::uint64_t> their_counts(members);
  group.all_to_all(counts, their_counts);
  const std::vector<std::uint64_t> their_lengths(members, own_length);
  const auto sizes = packed_sizes(counts, lengths, kind.bytes());
  const auto their_sizes = packed_sizes(their_counts, their_lengths, kind.bytes());
  std::vector<std::byte> in(total(their_sizes));
  group.all_to_all(out, in, sizes, their_sizes);
  return comm::sparse::add_up(unpack_all(in, their_counts, their_lengths, kind), kind);
}

/// Up one layer: gathers all members' parts of the `length` positions that the group shares.
SparseBlock gather_parts(Communicator& group, const SparseBlock& part, std::uint64_t length,
                         const RowKind& kind) {
  const auto members = static_cast<std::size_t>(group.size());
  std::vector<std::uint64_t> counts(members), lengths;
  const std::uint64_t own = part.positions.size();
  group.all_gather(ConstBuffer(&own, 1, DType::uint64), counts);
  for (int member = 0; member < group.size(); ++member) {
    lengths.push_back(comm::sparse::part_length(length, group.size(), member));
  }
  const auto sizes = packed_sizes(counts, lengths, kind.bytes());
  std::vector<std::byte> out, in(total(sizes));
  comm::sparse::pack(part, kind.bytes(), out);
  group.all_gather(out, in, sizes);
  return comm::sparse::join(unpack_all(in, counts, lengths, kind), length, kind);
}

/// Whether the sparse form may need that share of the dense form's bytes, or more. In the worst case no index
/// is on two ranks: then a rank sends all that it has, and receives all that there is.
bool goes_dense(std::uint64_t length, std::uint64_t rows, std::size_t ranks, std::size_t row_bytes,
                double share) {
  const std::uint64_t mean = rows / ranks, most = std::min(length, rows);
  const auto bytes = [&](std::uint64_t count) {
    return static_cast<double>(comm::sparse::packed_bytes(count, length, row_bytes));
  };
  return bytes(mean) + bytes(most) >=
         share * 2 * static_cast<double>(length) * static_cast<double>(row_bytes);
}

/// Merging takes some 10 ns for a value; summing one in shared memory takes less than one.
double usual_dense_share(const Communicator& communicator) {
  return situation_of(communicator).shares_memory ? 0.1 : 0.5;
}

/// The dense form: an ordinary all_reduce of all rows, and, if rows are missing, one of a bit for each row.
void sum_densely(Communicator& communicator, SparseBlock& block, DType dtype, const RowKind& kind,
                 bool has_gaps, const CallOptions& options) {
  const std::uint64_t elements = block.length * kind.width;
  const std::size_t row = kind.bytes();
  if (!has_gaps) {
    communicator.all_reduce(Buffer(block.values.data(), elements, dtype), ReduceOp::sum, options);
    return;
  }
  std::vector<std::byte> rows(block.length * row);
  for (std::size_t i = 0; i < block.positions.size(); ++i) {
    std::memcpy(&rows[block.positions[i] * row], &block.values[i * row], row);
  }
  std::vector<std::byte> present = comm::sparse::bitmap(block);
  const Work sums =
      communicator.all_reduce_async(Buffer(rows.data(), elements, dtype), ReduceOp::sum, options);
  const Work bits = communicator.all_reduce_async(present, ReduceOp::bit_or);
  sums.wait();
  bits.wait();
  block.positions = comm::sparse::positions_of(present, block.length);
  block.values.resize(block.positions.size() * row);
  for (std::size_t i = 0; i < block.positions.size(); ++i) {
    std::memcpy(&block.values[i * row], &rows[block.positions[i] * row], row);
  }
}

}  // namespace

SparseAllReduce::SparseAllReduce(Communicator communicator, const SparseOptions& options)
    : communicator_(std::move(communicator)),
      degrees_(options.degrees.empty() ? comm::sparse::default_degrees(communicator_.size())
                                       : options.degrees),
      dense_share_(options.dense_share.value_or(usual_dense_share(communicator_))),
      dense_algorithm_(options.dense_algorithm) {
  if (const auto fault = comm::sparse::degrees_fault(degrees_, communicator_.size()); !fault.empty())
    refuse(communicator_.rank(), fault);
  if (std::isnan(dense_share_)) refuse(communicator_.rank(), "dense_share is not a number");
  if (!dense_algorithm_.empty()) {
    const algorithms::ConfiguredAlgorithm dense =
        algorithms::parse_algorithm(schedule::Collective::all_reduce, dense_algorithm_).value_or_throw();
    algorithms::supports(*dense.algorithm,
                         {schedule::Collective::all_reduce, 0, communicator_.size(), 0, dense.arguments})
        .throw_if_error();
  }
  const std::string_view degree_bytes(reinterpret_cast<const char*>(degrees_.data()),
                                      degrees_.size() * sizeof(int));
  Words words{hash(kHashSeed, degree_bytes), hash(kHashSeed, std::string_view(dense_algorithm_)), 0, 0};
  std::memcpy(&words[2], &dense_share_, sizeof dense_share_);
  expect_same(tell_all(communicator_, words), 3, [&](const Words& one) {
    return one == words ? "has the same options as this one" : "has other options";
  });
  for (const comm::sparse::Place& place : comm::sparse::places(communicator_.rank(), degrees_)) {
    groups_.push_back(communicator_.split(place.first_in_it, place.digit));
  }
}

std::pair<std::vector<std::uint64_t>, std::vector<std::byte>> SparseAllReduce::sum(
    std::uint64_t length, std::span<const std::uint64_t> indices, ConstBuffer values, std::uint64_t width) {
  check(communicator_.rank(), length, indices, values, width);
  const DefaultArithmetic arithmetic;
  const auto dtype = static_cast<std::uint64_t>(values.dtype);
  const auto all = tell_all(communicator_, {length, dtype, width, indices.size()});
  expect_same(all, 3, [](const Words& one) {
    const auto type = name_of(static_cast<DType>(one[1]));
    return one[2] == 1 ? fmt::format("has a vector of {} {}", one[0], type)
                       : fmt::format("has {} rows of {} {}", one[0], one[2], type);
  });
  std::uint64_t given = 0;
  bool has_gaps = false;
  for (const Words& one : all) {
    given += one[3];
    has_gaps = has_gaps || one[3] < length;
  }

  const RowKind kind{size_of(values.dtype), width, kernels::reduce_function(values.dtype, ReduceOp::sum)};
  SparseBlock block{length, {indices.begin(), indices.end()}, std::vector<std::byte>(values.bytes())};
  if (values.count > 0) std::memcpy(block.values.data(), values.data, values.bytes());
  if (given > 0 && goes_dense(length, given, all.size(), kind.bytes(), dense_share_)) {
    sum_densely(communicator_, block, values.dtype, kind, has_gaps,
                {.algorithm = dense_algorithm_, .wire = Wire::native});
  } else if (given > 0) {
    std::vector<std::uint64_t> lengths;  // above each layer
    for (Communicator& group : groups_) {
      lengths.push_back(block.length);
      block = exchange_parts(group, block, kind);
    }
    for (std::size_t layer = groups_.size(); layer-- > 0;) {
      block = gather_parts(groups_[layer], block, lengths[layer], kind);
    }
  }
  return {std::move(block.positions), std::move(block.values)};
}

}  // namespace kolo
