// FirstUse: learns that an operation of libtorch is about to use given tensors, before it runs.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace kolo::train {

/// A callback on all operations of the process (at::RecordFunction) looks at their inputs. It is there only
/// while some tensor is watched. A tensor is known by its storage, so views and aliases count as it does.
/// What reads memory through a pointer is no operation: such code calls touch().
///
/// Not thread-safe, but operations may run in any thread, also while this object changes.
class FirstUse {
 public:
  /// By its name the operation reads, or writes in place; through a pointer it may do both.
  enum class Access { read, write, pointer };
  /// Gets the indices of the watched tensors among the inputs of one operation, perhaps some more than once.
  using OnUse = std::function<void(std::span<const std::size_t> indices, Access access)>;
  /// `on_use` is called in the thread that runs the operation, perhaps by several threads at once. Operations
  /// of its own are not looked at. It must not throw, as libtorch would only log that.
  explicit FirstUse(OnUse on_use);
  ~FirstUse();
  FirstUse(const FirstUse&) = delete;
  FirstUse& operator=(const FirstUse&) = delete;

  /// From now on, in addition to what is watched already: tensors with storage, each with an index.
  void watch(const std::vector<std::pair<at::Tensor, std::size_t>>& tensors);
  /// No longer.
  void forget(std::size_t index);
  void forget_all();

  /// What an operation on `tensor` does: for code that is about to use its memory directly.
  static void touch(const at::Tensor& tensor);

 private:
  std::shared_ptr<const OnUse> listener_;
};

}  // namespace kolo::train
