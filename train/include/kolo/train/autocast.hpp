// Autocast: products and convolutions in bfloat16, weights and all else in float32.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <memory>

namespace kolo {

/// While it lives, libtorch casts the inputs of products and convolutions that this thread calls to bfloat16.
/// It is `at::autocast` (P. Micikevicius et al.: "Mixed Precision Training", ICLR 2018, section 3).
/// Parameters, their gradients and the optimizer's state stay float32, so DistributedDataParallel and the
/// optimizer need not know. Put it around forward and loss; backward() computes each operation as its forward
/// was.
///
///     {
///       const kolo::Autocast autocast;
///       loss = cross_entropy(model(images).to(at::kFloat), labels);
///     }
///     loss.backward();
///     optimizer.step();
///
/// libtorch keeps the weights that it has cast until autocast ends. Its own guard forgets them where the
/// outermost one ends, so that under an outer one, around the loop over steps for example, all steps compute
/// with the weights of the first. This one forgets them whenever one ends. Do not step the optimizer while
/// one lives.
///
/// May be nested; `Autocast(false)` computes a part of forward as its inputs are. Belongs to the thread that
/// makes it, and the replicas of a DataParallel, which are threads of their own, do not see it: make it in
/// the model's forward().
///
/// bfloat16 is the one format that libtorch multiplies on all CPUs; products of float16 are missing in
/// libtorch 1.13 and slow later, so there is no choice.
class Autocast {
 public:
  /// From now on this thread computes products and convolutions in bfloat16; with `false`, as their inputs
  /// are.
  explicit Autocast(bool is_enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  struct State;
  std::unique_ptr<State> before_;
};

/// Whether this processor multiplies bfloat16 by instructions of its own (AVX-512 BF16, which processors with
/// AMX have too; false on anything but x86-64). Without them Autocast saves memory and is slower than
/// float32, as each product is made of float32 ones. Thread-safe.
bool has_bfloat16_products();

}  // namespace kolo
