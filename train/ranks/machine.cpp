#include "ranks/machine.hpp"

#include "kolo/train/libtorch.hpp"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/util/Exception.h>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"

namespace kolo::train {

std::string machine() {
  const int threads = at::get_num_threads();
  std::string text = std::to_string(threads) + (threads == 1 ? " thread\n" : " threads\n");
  // One of its lines lists the settings of the build, the version among them.
  for (const char c : at::show_config()) text += c == ',' ? '\n' : c;
  return text;
}

void compare_machines(Communicator& communicator, bool require_equal) {
  try {
    agree(communicator, "the ranks' machines differ", machine());
  } catch (const MismatchError& error) {
    const std::string text =
        std::string(error.what()) +
        "; so what their optimizers make of the same gradients may differ in the last bits";
    if (require_equal)
      throw MismatchError(text, {.peer = error.context().peer, .collective = "DistributedDataParallel"});
    if (communicator.rank() == 0)
      TORCH_WARN(text, " (see DistributedDataParallelOptions::check_parameters_every)");
  }
}

}  // namespace kolo::train
