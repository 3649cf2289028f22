// monitored_barrier(): a barrier whose error says in the words of PyTorch's Gloo which rank has not come.
#include <stdexcept>
#include <string>

#include "group.hpp"

namespace kolo::pytorch {

/// Gloo's words, which scripts look for, and kolo's, which name all ranks that have not come.
void Group::monitoredBarrier(const c10d::BarrierOptions& options, bool /*waits_for_all*/) {
  const auto work = barrier(options);
  try {
    work->wait();
  } catch (const std::exception& error) {
    int missing = -1;
    try {
      if (work->exception() == nullptr) throw;  // a signal
      std::rethrow_exception(work->exception());
    } catch (const Error& cause) {
      missing = cause.context().peer;
    }
    const std::string text =
        rank_ == 0 ? "Rank " + std::to_string(missing) + " failed to pass monitoredBarrier: "
                   : "Rank " + std::to_string(rank_) +
                         " successfully reached monitoredBarrier, but received errors while waiting for "
                         "send/recv from rank 0: ";
    throw std::runtime_error(text + error.what());
  }
}

}  // namespace kolo::pytorch
