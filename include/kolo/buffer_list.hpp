// BufferList: one buffer per rank, for collectives whose whole data need not be in one piece.
#pragma once

#include <concepts>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include "kolo/buffer.hpp"

namespace kolo {

/// A range of what converts to buffers of kind B: of Buffers, vectors, spans or tensors. A temporary range
/// must not own their memory, nor may a view make each vector when it is read.
template <typename R, typename B>
concept BufferRange =
    std::ranges::input_range<R> && std::convertible_to<std::ranges::range_reference_t<R>, B> &&
    !OwningTemporary<std::ranges::range_reference_t<R>> &&
    (std::is_lvalue_reference_v<R> || std::ranges::borrowed_range<R> ||
     std::convertible_to<std::ranges::range_value_t<R>, B>);

/// One buffer for each rank, in the order of the ranks: the parts of data that a collective takes elsewhere
/// as one buffer. Their lengths may differ and may be 0. Converts implicitly from any range of buffers,
/// vectors, spans or tensors: `std::vector<std::vector<float>>`. A call reads the list before it returns,
/// also an asynchronous one; the memory that the buffers name outlives the call as that of a single buffer
/// does.
template <typename B>
class ListOf {
 public:
  /// What the list has of each rank.
  using Element = std::conditional_t<std::same_as<B, Buffer>, Buffer, ConstBuffer>;

  /// Contiguous Buffers (ConstBuffers, if the call reads) that are no temporary are borrowed, all others are
  /// copied.
  template <BufferRange<B> R>
  ListOf(R&& range) {  // NOLINT: implicit on purpose
    if constexpr (std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                  std::ranges::borrowed_range<R> && std::same_as<std::ranges::range_value_t<R>, Element>) {
      borrowed_ = {std::ranges::data(range), std::ranges::size(range)};
    } else {
      for (auto&& one : range) own_.push_back(B(std::forward<decltype(one)>(one)));
    }
  }

  /// The buffers, in the order of the ranks.
  std::span<const Element> buffers() const noexcept {
    return own_.empty() ? borrowed_ : std::span<const Element>(own_);
  }

 private:
  std::span<const Element> borrowed_;
  std::vector<Element> own_;
};

/// Memory that the call writes.
using BufferList = ListOf<Buffer>;
/// Memory that the call reads.
using ConstBufferList = ListOf<ConstBuffer>;
/// Memory that an asynchronous call reads.
using BorrowedConstBufferList = ListOf<BorrowedConstBuffer>;

}  // namespace kolo
