// monitored_barrier(): a barrier whose error says in the words of PyTorch's Gloo which ranks have not come.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "group.hpp"
#include "interrupt.hpp"

namespace kolo::pytorch {
namespace {

/// The last ranks without which the call could not end, in their order.
std::vector<int> awaited_until_end(const kolo::Work& work) {
  std::vector<int> ranks;
  try {
    while (!work.wait(std::chrono::milliseconds(20))) {
      if (auto now = work.waiting_for(); !now.empty()) ranks = std::move(now);
      check_signals();
    }
  } catch (const Error&) {  // the call has it
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

/// Rank 0 hears of each rank before the barrier, so it knows all that are missing. In Gloo's words, which
/// scripts look for, and kolo's.
void Group::monitoredBarrier(const c10d::BarrierOptions& options, bool waits_for_all) {
  const auto call = make_call("monitored_barrier");
  const auto from = call->input(at::zeros({1}, at::kByte));
  const Buffer to = rank_ == 0 ? call->output(at::empty({size_}, at::kByte)) : Buffer();
  CallOptions direct = options_of(options);
  direct.algorithm = "direct";
  kolo::Work came;
  Started work = start(c10d::OpType::BARRIER, call, [&](Communicator& communicator) {
    return came = communicator.gather_async(from, to, 0, {}, direct);
  });
  std::vector<int> missing;
  try {
    if (rank_ == 0) missing = awaited_until_end(came);
    work->wait();
    missing.clear();
    work = barrier(options);
    work->wait();
  } catch (const std::exception& error) {
    try {
      if (work->exception() == nullptr) throw;  // a signal
      std::rethrow_exception(work->exception());
    } catch (const Error& cause) {
      if (missing.empty()) missing.push_back(cause.context().peer);
    }
    if (!waits_for_all) missing.resize(1);
    std::string ranks;
    for (const int rank : missing) ranks += (ranks.empty() ? " " : ", ") + std::to_string(rank);
    const std::string text =
        rank_ == 0 ? (waits_for_all ? "Ranks" : "Rank") + ranks + " failed to pass monitoredBarrier: "
                   : "Rank " + std::to_string(rank_) +
                         " successfully reached monitoredBarrier, but received errors while waiting for "
                         "send/recv from rank 0: ";
    throw std::runtime_error(text + error.what());
  }
}

}  // namespace kolo::pytorch
