// NcclGroup: the ranks of a communicator as NCCL knows them.
#pragma once

#include <functional>
#include <memory>

#include "base/deadline.hpp"
#include "comm/device/pieces.hpp"
#include "device/nccl.hpp"
#include "device/stream.hpp"
#include "kolo/communicator.hpp"
#include "schedule/call_key.hpp"

namespace kolo::comm {

/// Its calls run on a stream of its own, in the order in which they are put there. One thread uses it, with
/// the gpu current.
class NcclGroup {
 public:
  /// Called again and again while NCCL waits for other ranks; throws when one of them is lost.
  using Look = std::function<void()>;

  /// Whether NCCL has such a call. All ranks that make it find the same.
  static bool has(const schedule::CallKey& key, const CallOptions& options);

  /// Collective: `id` is the same on all ranks, and of this group alone. Throws Broken, and what `look`
  /// throws.
  NcclGroup(std::shared_ptr<const device::Gpu> gpu, int rank, int size, const device::nccl::UniqueId& id,
            const Look& look);
  /// Aborts what is still on the stream, if close() has not ended it.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  const device::Gpu& gpu() const noexcept { return *gpu_; }
  /// Puts a call on the stream, behind `begin`, and `end` behind it. `factor`: of a premultiplied sum, or
  /// null. Throws as the constructor does.
  void put(const schedule::CallKey& key, const CallParts& parts, const double* factor,
           const device::Event& begin, device::Event& end, const Look& look);
  /// Whether NCCL's last function is done. Throws Broken if NCCL has met an error since.
  bool is_settled() const;
  /// All ranks have all that they called for: leaves the group, or aborts if NCCL cannot by then.
  void close(const Deadline& deadline) noexcept;

 private:
  void settle(const Look& look) const;
  template <typename Calls>
  void together(const Look& look, const Calls& calls) const;
  void reduce(const schedule::CallKey& key, const CallParts& parts, const double* factor,
              const Look& look) const;
  void move(const schedule::CallKey& key, const CallParts& parts, const Look& look) const;
  void exchange(const schedule::CallKey& key, const CallParts& parts) const;

  const std::shared_ptr<const device::Gpu> gpu_;
  const device::Nccl& nccl_;
  const int rank_, size_;
  device::nccl::Communicator communicator_ = nullptr;
  device::Stream stream_;
};

}  // namespace kolo::comm
