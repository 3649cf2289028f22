// Buffer and ConstBuffer: typed memory that a collective writes or reads, and the device that it is on.
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <ranges>
#include <type_traits>

#include "kolo/dtype.hpp"

namespace kolo {

/// Any contiguous range of element type, const or not: vector, array, span, C array.
template <typename R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    Element<std::remove_cv_t<std::ranges::range_value_t<R>>>;

/// What kind of device memory is on.
enum class DeviceKind : std::uint8_t { host, cuda };

/// The host's memory, or that of one device: {DeviceKind::cuda, 1} is the second GPU.
struct Device {
  DeviceKind kind = DeviceKind::host;  ///< `index` counts devices of this kind
  std::int16_t index = 0;              ///< from 0; the host's is 0

  /// Whether both are one device.
  bool operator==(const Device&) const = default;
};

struct Buffer;

/// How a type that is no range becomes a Buffer: specialize it with `static Buffer of(const T&)`, in which
/// the buffer is of memory that the T keeps. `kolo/train/tensor.hpp` does so for libtorch's tensors.
template <typename T>
struct BufferTraits;

/// A type for which BufferTraits is specialized, const or not.
template <typename T>
concept HasBuffer = requires(const std::remove_reference_t<T>& value) {
  { BufferTraits<std::remove_cvref_t<T>>::of(value) } -> std::same_as<Buffer>;
};

/// A temporary that keeps its memory itself.
template <typename R>
concept OwningTemporary =
    !std::is_lvalue_reference_v<R> && (HasBuffer<R> || (ElementRange<R> && !std::ranges::borrowed_range<R>));

/// `count` elements of `dtype` at `data`, which kolo may write. Does not own the memory. `data` may be null
/// only when `count` is 0. Converts implicitly from vectors, arrays and spans of element types. A temporary
/// that owns its memory does not convert: it would be gone before the result can be read.
struct Buffer {
  void* data = nullptr;        ///< the first element
  std::uint64_t count = 0;     ///< elements, not bytes
  DType dtype = DType::uint8;  ///< type of each element
  Device device = {};          ///< where the memory is

  Buffer() = default;
  /// Memory whose element type is known at run time.
  Buffer(void* data_, std::uint64_t count_, DType dtype_, Device device_ = {})
      : data(data_), count(count_), dtype(dtype_), device(device_) {}
  /// The elements of a vector, array or span.
  template <ElementRange R>
  requires(std::ranges::borrowed_range<R> &&
           !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>)
      Buffer(R&& range)  // NOLINT: implicit on purpose
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        dtype(dtype_of<std::ranges::range_value_t<R>>) {}
  /// The memory of a tensor, or of what else BufferTraits know.
  template <HasBuffer T>
  Buffer(T& value)
      : Buffer(BufferTraits<std::remove_const_t<T>>::of(value)) {}  // NOLINT: implicit on purpose
  /// A temporary container: give it a name that lives until the call is done.
  template <OwningTemporary R>
  Buffer(R&&) = delete;

  /// Length of the memory in bytes.
  std::uint64_t bytes() const noexcept { return count * size_of(dtype); }
};

/// As Buffer, but kolo only reads the memory.
struct ConstBuffer {
  const void* data = nullptr;  ///< the first element
  std::uint64_t count = 0;     ///< elements, not bytes
  DType dtype = DType::uint8;  ///< type of each element
  Device device = {};          ///< where the memory is

  ConstBuffer() = default;
  /// Memory whose element type is known at run time.
  ConstBuffer(const void* data_, std::uint64_t count_, DType dtype_, Device device_ = {})
      : data(data_), count(count_), dtype(dtype_), device(device_) {}
  /// The same memory, to be read.
  ConstBuffer(const Buffer& buffer)  // NOLINT: implicit on purpose
      : data(buffer.data), count(buffer.count), dtype(buffer.dtype), device(buffer.device) {}
  /// The elements of a vector, array or span; of a temporary one until the end of the statement.
  template <ElementRange R>
  ConstBuffer(const R& range)  // NOLINT: implicit on purpose
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        dtype(dtype_of<std::remove_cv_t<std::ranges::range_value_t<R>>>) {}
  /// The memory of a tensor, or of what else BufferTraits know; as of a range.
  template <HasBuffer T>
  ConstBuffer(const T& value) : ConstBuffer(BufferTraits<T>::of(value)) {}  // NOLINT: implicit on purpose

  /// Length of the memory in bytes.
  std::uint64_t bytes() const noexcept { return count * size_of(dtype); }
};

/// As ConstBuffer, of memory that outlives the call: what asynchronous calls read.
struct BorrowedConstBuffer : ConstBuffer {
  /// As those of a ConstBuffer.
  using ConstBuffer::ConstBuffer;
  /// No memory.
  BorrowedConstBuffer() = default;
  /// The same memory.
  BorrowedConstBuffer(const ConstBuffer& buffer) : ConstBuffer(buffer) {}  // NOLINT: implicit on purpose
  /// A temporary container: as of a Buffer.
  template <OwningTemporary R>
  BorrowedConstBuffer(R&&) = delete;
};

static_assert(sizeof(Buffer) == 24 && sizeof(BorrowedConstBuffer) == 24);

}  // namespace kolo
