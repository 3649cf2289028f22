// Tensors in collectives: as buffers, one by one, many side by side, and in memory that ranks share.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>
#include <torch/serialize/archive.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/buffer.hpp"
#include "kolo/communicator.hpp"
#include "kolo/train/hooks.hpp"
#include "kolo/train/slice.hpp"
#include "kolo/work.hpp"

namespace kolo {

/// The type in which collectives see `type`; bool travels as uint8 (min is "and", max is "or"). Throws
/// InvalidArgumentError for complex, quantized and other types that kolo does not reduce.
DType dtype_of_tensor(at::ScalarType type);

/// The elements of a dense tensor in the order in which they lie in memory (for channels_last tensors that is
/// not their logical order). The tensor keeps the memory: hold it until the Work is done. Throws
/// InvalidArgumentError when the tensor is undefined, neither on the CPU nor on a CUDA device, sparse, or has
/// gaps between its elements.
Buffer buffer_of(const at::Tensor& tensor);

/// Tensors are buffers: `communicator.all_reduce(tensor)` is all_reduce(buffer_of(tensor)), and throws the
/// same. A call on a device begins after what its default stream holds, unless CallOptions::stream says so.
template <>
struct BufferTraits<at::Tensor> {
  /// buffer_of().
  static Buffer of(const at::Tensor& tensor) { return buffer_of(tensor); }
};

/// A collective on tensors that was started. It keeps the tensors until it is done, and its end waits for
/// that. Not thread-safe.
class [[nodiscard]] TensorWork {
 public:
  /// Is done, without a result.
  TensorWork() = default;
  /// Made by the library: `result` gets the values of `memory`, which differs from it unless it is
  /// contiguous.
  explicit TensorWork(Work work, at::Tensor read = {}, at::Tensor memory = {}, at::Tensor result = {})
      : work_(std::move(work)),
        read_(std::move(read)),
        memory_(std::move(memory)),
        result_(std::move(result)) {}
  /// Blocks until done; swallows the operation's error.
  ~TensorWork() { settle(); }
  /// The other one is done, without a result.
  TensorWork(TensorWork&& other) noexcept = default;
  /// As the end of this one, then the same.
  TensorWork& operator=(TensorWork&& other) noexcept;

  /// As Work::done(); the result is in place after wait().
  [[nodiscard]] bool done() const noexcept { return work_.done(); }
  /// Blocks until done, and throws the operation's error. Returns the tensor that holds the result: that of
  /// the call; undefined for a send.
  at::Tensor wait();
  /// The same, but of a tensor on a device as Work::order(): this thread's current stream goes on with the
  /// result. A call that fails later on leaves any values, and the communicator's next call throws.
  at::Tensor order();
  /// As Work::duration().
  std::chrono::nanoseconds duration() const noexcept { return work_.duration(); }

 private:
  at::Tensor take_result();
  void settle() noexcept;

  Work work_;
  at::Tensor read_, memory_, result_;
  bool is_over_ = false;  ///< wait() or order() has returned
};

/// Blocks until all are done, those that fail too, and empties the list. Then throws the error of the first
/// that has failed, or returns how long the longest operation took.
std::chrono::nanoseconds wait_all(std::vector<TensorWork>& works);

// Collectives of a Communicator on strided tensors, whose documentation holds for them. Elements count in
// their logical order, so ranks may lay out a tensor in different ways; what is not contiguous travels as a
// copy. Between the call and TensorWork::wait() no tensor of a call may change. On a CUDA device a call
// begins after what the caller's current stream holds; send and recv go through the host's memory. All throw
// InvalidArgumentError for a tensor that is undefined, on another kind of device, sparse or of a type that
// kolo does not know; broadcast, send and recv take any type.

/// Throws for what reductions refuse, as they do.
void require_collective(const at::Tensor& tensor);

/// Every rank ends with the reduction of all ranks' tensors, of one shape, in `tensor`, or in `out`.
TensorWork all_reduce_async(const at::Tensor& tensor, Communicator& communicator,
                            const Reduction& reduction = ReduceOp::sum, const CallOptions& options = {});
TensorWork all_reduce_async(const at::Tensor& in, const at::Tensor& out, Communicator& communicator,
                            const Reduction& reduction = ReduceOp::sum, const CallOptions& options = {});
/// `out` gets all ranks' elements behind each other; `counts`: elements of each rank.
TensorWork all_gather_async(const at::Tensor& in, const at::Tensor& out, Communicator& communicator,
                            const Counts& counts = {}, const CallOptions& options = {});
/// `out` gets this rank's part of the reduction of all ranks' `in`; `counts`: elements of each rank's part.
TensorWork reduce_scatter_async(const at::Tensor& in, const at::Tensor& out, Communicator& communicator,
                                const Reduction& reduction = ReduceOp::sum, const Counts& counts = {},
                                const CallOptions& options = {});
/// Rank r gets the elements of part r; sent and received parts have so many elements.
TensorWork all_to_all_async(const at::Tensor& in, const at::Tensor& out, Communicator& communicator,
                            const Counts& sent = {}, const Counts& received = {},
                            const CallOptions& options = {});
/// `out` gets this rank's part of the root's `in`, which is ignored elsewhere and may be undefined there.
TensorWork scatter_async(const at::Tensor& in, const at::Tensor& out, int root, Communicator& communicator,
                         const Counts& counts = {}, const CallOptions& options = {});
/// Every rank ends with the root's values.
TensorWork broadcast_async(const at::Tensor& tensor, int root, Communicator& communicator,
                           const CallOptions& options = {});
/// Point to point: the receiver's tensor has the same number and type of elements.
TensorWork send_async(const at::Tensor& tensor, int peer, Communicator& communicator, int tag = 0);
TensorWork recv_async(const at::Tensor& tensor, int peer, Communicator& communicator, int tag = 0);

/// A tensor and what it is called.
struct NamedTensor {
  std::string name;       ///< in its model, for example
  at::Tensor tensor;      ///< the tensor itself, not a copy
  std::string note = {};  ///< what else ranks must agree on
};

/// Tensors of one element type side by side, without gaps, on a device or in memory that the ranks of a host
/// share: one call sends or averages all of them. Not thread-safe.
class FlatTensors {
 public:
  /// Zeros for tensors of the shapes and layouts of `like`, in this order, and of their type or another one.
  /// Throws InvalidArgumentError, with its name, for one that is not a strided tensor of the first one's type
  /// on its device, and for none at all.
  explicit FlatTensors(std::span<const NamedTensor> like, std::optional<at::ScalarType> type = {});
  /// The same for some of them, of these indices.
  FlatTensors(std::span<const NamedTensor> like, std::span<const std::size_t> members,
              std::optional<at::ScalarType> type = {});
  FlatTensors(FlatTensors&&) noexcept = default;
  FlatTensors& operator=(FlatTensors&&) noexcept = default;

  /// What a hook is told of a tensor at the begin of the memory.
  static GradientPart part_of(const NamedTensor& named);

  /// Names, sizes in memory's order of dimensions, and places.
  const std::vector<GradientPart>& parts() const noexcept { return parts_; }
  /// Index of a part's tensor among `like`.
  std::size_t member(std::size_t part) const { return shapes_[part].member; }
  /// Number of all elements.
  std::uint64_t count() const noexcept { return count_; }
  /// Length of the memory.
  std::uint64_t bytes() const noexcept { return buffer().bytes(); }

  /// The elements of a part, with the shape and the layout of its tensor: a leaf with a storage of its own,
  /// which an optimizer may detach_(). It keeps the memory that is there now.
  at::Tensor view(std::size_t part) const;
  /// All elements, in their order in memory: [count()].
  at::Tensor flat() const;
  /// The same for a Communicator.
  Buffer buffer() const noexcept;
  /// Calls `use` with all elements in the host's memory: where they lie or, of a device, in a pinned copy
  /// that is kept for the next time, and copied back in the end.
  void on_host(const std::function<void(Buffer)>& use) const;

  /// Moves a tensor and its values here: it stays the same object, and gets the type of the flat. A gradient
  /// of another type goes. All that are adopted share one storage. The tensor has the part's shape.
  void adopt(std::size_t part, const at::Tensor& tensor);
  /// Whether the tensor is one that was adopted, and has kept its storage.
  bool holds(const at::Tensor& tensor) const noexcept;
  /// Throws InvalidArgumentError, with the tensor's name, for one of another type or shape than the part has.
  void require_alike(std::size_t part, const NamedTensor& named) const;

  /// Which elements of a part lie in `range`, a part of the flat memory; both count from its begin.
  Slice overlap(std::size_t part, const Slice& range) const;
  /// What lies in `range`, in the same memory: [n] of a part of at most one dimension, else [n, 1].
  FlatTensors within(const Slice& range) const;
  /// The same layout for elements of another type, without memory.
  FlatTensors alike(at::ScalarType type) const;
  /// Gives back the memory, also that of tensors which were adopted; views keep it.
  void release();
  /// Fresh memory with any values, unless there is memory.
  void provide();
  /// Whether there is memory.
  bool is_provided() const noexcept { return memory_ != nullptr; }

 private:
  struct Shape {
    std::size_t member;
    std::vector<std::int64_t> sizes, strides;
  };
  FlatTensors() = default;

  std::vector<GradientPart> parts_;
  std::vector<Shape> shapes_;
  std::uint64_t count_ = 0;
  DType dtype_ = DType::float32;
  at::TensorOptions options_;
  std::shared_ptr<std::byte[]> memory_;
  c10::Storage storage_;       ///< of what was adopted
  mutable at::Tensor pinned_;  ///< see on_host()
};

/// Flat tensors for tensors of several element types: one for each, in the order of their first tensors.
/// member() is an index in `like`.
std::vector<FlatTensors> flats_by_type(std::span<const NamedTensor> like);

/// Copies all values. `from`, and `to`, is the list that the flats were made like. pack() throws
/// InvalidArgumentError, with its name, for a tensor that has another type or shape now; then it has copied
/// none.
void pack(std::span<const NamedTensor> from, std::span<const FlatTensors> to);
void unpack(std::span<const FlatTensors> from, std::span<const NamedTensor> to);
/// Whether all values are free of infinities and NaN.
bool are_finite(std::span<const FlatTensors> flats);
/// For checkpoints: a tensor for each flat, whose elements count in the logical order of their tensors.
/// load() throws InvalidArgumentError where the archive has other element types or sizes.
void save(std::span<const FlatTensors> flats, torch::serialize::OutputArchive& archive,
          const std::string& name);
void load(std::span<const FlatTensors> flats, torch::serialize::InputArchive& archive,
          const std::string& name);

/// Ordinary dense CPU tensors whose memory comes from SharedArena::instance(): a forked child sees what its
/// parent writes there after the fork, until it writes itself; what at::empty and at::empty_like make
/// otherwise, with uninitialized values. Both throw InvalidArgumentError for what is not dense or not on the
/// CPU, and SystemError when memory or descriptors run out.
at::Tensor shared_empty(at::IntArrayRef sizes, const at::TensorOptions& options = {});
at::Tensor shared_like(const at::Tensor& tensor);

/// Moves a tensor's storage there, with its values; nothing where it lies there already. The tensor stays the
/// same object, and tensors that share the storage (views, tied parameters) come along; raw pointers from
/// before are dangling. No other thread may use the tensor meanwhile. Throws as above; then nothing has
/// changed.
void move_to_shared_memory(const at::Tensor& tensor);
/// All parameters and buffers, those of submodules too. Gradients under DistributedDataParallel live there
/// anyway. When it throws, some have been moved, which changes no value.
void move_to_shared_memory(const torch::nn::Module& module);

/// Whether all of a tensor's storage lies in memory that kolo gave out.
bool is_shared(const at::Tensor& tensor);

/// Lets malloc() keep up to 1 GiB of freed memory for the next step. A training step allocates what the step
/// before has freed. By default glibc returns much of it to the system, and the next step pays a page fault
/// for every 4 KiB: up to 2.7 times the time of a step (docs/training.md). Heaps of other threads than the
/// main one stay, too. Call it once, at the beginning of main(). It changes the whole process: resident
/// memory no longer falls when tensors are freed. Does nothing where the C library is not glibc. Any thread.
void keep_freed_memory();

}  // namespace kolo
