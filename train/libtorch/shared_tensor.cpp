#include "kolo/train/tensor.hpp"

#include <ATen/Functions.h>

#include <cstdlib>  // defines __GLIBC__
#include <cstring>
#include <memory>
#include <utility>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "kolo/arena.hpp"
#include "kolo/error.hpp"
#include "kolo/memory.hpp"

namespace kolo {
namespace {

using Block = std::shared_ptr<std::byte[]>;

void release(void* block) {
  delete static_cast<Block*>(block);
}

void require_dense_on_cpu(const at::Tensor& tensor) {
  if (!tensor.defined()) throw InvalidArgumentError("an undefined tensor has no memory to share", {});
  if (!tensor.device().is_cpu()) {
    throw InvalidArgumentError(
        "a tensor on " + tensor.device().str() + " cannot lie in the host's shared memory", {});
  }
  if (tensor.layout() != at::kStrided) throw InvalidArgumentError("a sparse tensor cannot be shared", {});
}

/// Gives the tensor's storage other memory, whose contents are not set, and returns what it had.
at::DataPtr replace_memory(const at::Tensor& tensor) {
  const at::Storage& storage = tensor.storage();
  auto block = std::make_unique<Block>(SharedArena::instance().allocate(storage.nbytes()));
  void* const data = block->get();
  return storage.set_data_ptr(at::DataPtr(data, block.release(), release, at::kCPU));
}

at::Tensor without_values(at::Tensor fresh) {
  require_dense_on_cpu(fresh);
  replace_memory(fresh);
  return fresh;
}

}  // namespace

at::Tensor shared_empty(at::IntArrayRef sizes, const at::TensorOptions& options) {
  // at::empty() itself makes no tensor that wants a gradient.
  at::Tensor tensor = without_values(at::empty(sizes, options.requires_grad(false)));
  return tensor.set_requires_grad(options.requires_grad());
}

at::Tensor shared_like(const at::Tensor& tensor) {
  require_dense_on_cpu(tensor);
  return without_values(at::empty_like(tensor));
}

void move_to_shared_memory(const at::Tensor& tensor) {
  require_dense_on_cpu(tensor);
  if (is_shared(tensor)) return;
  const at::DataPtr before = replace_memory(tensor);
  if (const at::Storage& storage = tensor.storage(); storage.nbytes() != 0) {
    std::memcpy(storage.data_ptr().get(), before.get(), storage.nbytes());
  }
}

void move_to_shared_memory(const torch::nn::Module& module) {
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined()) move_to_shared_memory(tensor);
    }
  }
}

bool is_shared(const at::Tensor& tensor) {
  const at::Storage& storage = tensor.storage();
  return is_shared(storage.data_ptr().get(), storage.nbytes());
}

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kKept = 1 << 30;
  // Once one of the thresholds is set, glibc no longer adapts the other.
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_TOP_PAD, 64 << 20);  // threads that are not the main one keep a whole heap
#endif
}

}  // namespace kolo
