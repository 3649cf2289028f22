// GradientListener, LeafWatch: learn from autograd that a gradient is there, and that a run of its engine is
// over.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace kolo::train {

/// A node of autograd's graph: a std::shared_ptr<Node>, or in newer versions a c10::intrusive_ptr<Node>.
using NodePtr = decltype(torch::autograd::Edge::function);

/// Called in the thread that runs backward.
class GradientListener {
 public:
  /// The gradient of a parameter has just been accumulated; a function may have had none to give.
  virtual void on_gradient(std::size_t index) = 0;
  /// The run is over, of which queue_end() was told.
  virtual void end_run() = 0;
  /// That run is gone: `is_over` is false if an exception broke it off before its end.
  virtual void leave_run(bool is_over) noexcept = 0;
  /// Collective: all of the parameters is there, to be read and loaded through pointers, until as many
  /// leave_whole(). Does nothing where it always is.
  virtual void make_whole() {}
  virtual void leave_whole() noexcept {}

 protected:
  ~GradientListener() = default;
};

/// on_gradient(index) follows each accumulation. Returns what del_post_hook() takes; the listener must be
/// there until then.
std::uintptr_t add_gradient_hook(const NodePtr& accumulator, GradientListener& listener, std::size_t index);

/// The first one that listens to the parameter; null for none.
GradientListener* listener_of(const at::Tensor& parameter);

/// Throws InvalidArgumentError where one listens.
void require_unheard(const std::string& name, const at::Tensor& parameter);

/// While it lives, parameters are whole on all ranks, whatever listens to them.
class WholeParameters {
 public:
  /// Collective over the ranks of each listener.
  explicit WholeParameters(std::span<const at::Tensor> parameters);
  ~WholeParameters();
  WholeParameters(const WholeParameters&) = delete;
  WholeParameters& operator=(const WholeParameters&) = delete;

 private:
  WholeParameters() = default;
  std::vector<GradientListener*> listeners_;
};

/// From within a run: its end calls end_run(), and then, or where it ends otherwise, leave_run().
void queue_end(GradientListener& listener);

/// For the run that this thread is in, also in the callbacks at its end: whether a function in another run
/// called it, to compute a part of the model anew (checkpointing).
bool is_nested_run();

/// Learns that a backward() has given some leaf of autograd's graph a gradient. While it watches, each node
/// of a backward() in its thread costs a callback. Not thread-safe.
class LeafWatch {
 public:
  LeafWatch() = default;
  ~LeafWatch() { stop(); }
  LeafWatch(const LeafWatch&) = delete;
  LeafWatch& operator=(const LeafWatch&) = delete;

  /// Watches this thread from now on.
  void start();
  void stop() noexcept;
  /// Whether a leaf has got a gradient since start(), in the same thread.
  bool has_seen() const noexcept;

 private:
  std::uint64_t seen_before_ = 0;
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
  std::thread::id thread_;
};

}  // namespace kolo::train
