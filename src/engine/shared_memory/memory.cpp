// Where the memory of a long call is: named in the descriptors, or private.
#include "kolo/memory.hpp"

#include <sys/mman.h>

#include <utility>

#include "engine/shared_memory/team.hpp"

namespace kolo::engine::shared_memory {
namespace {

/// `data` begins with a page.
void prefault(void* data, std::size_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, since Linux 5.14
  ::madvise(data, bytes, kPopulateWrite);
}

}  // namespace

/// Makes the pages of this rank's segment before the first use: one by one, each page would cost this rank a
/// fault, and then each other rank. Of pages that are there, a reader's fault maps many at once. Where the
/// system cannot do this, the first calls are slower.
void Team::prefault_short() {
  if (!std::exchange(is_short_data_there_, true)) prefault(slot_->data, sizeof slot_->data);
}

void Team::prefault_pieces(std::uint64_t bytes) {
  if (bytes <= piece_bytes_there_) return;
  piece_bytes_there_ = bytes;
  for (auto& half : slot_->pieces) prefault(half, bytes);
}

bool Running::is_named() const {
  for (int r = 0; r < call.size; ++r) {
    if (descriptor_of(r).memory[0].region == 0 && call.shape->shown_bytes(r) > 0) return false;
  }
  return true;
}

/// Finds the memory of all ranks in this address space, if all that matters is shared. Returns false on
/// failure. If the other ranks have done the call meanwhile, it needs no memory, and they may have freed
/// theirs.
bool Team::reach_memory(Running& running, Operation* operation) {
  Call& call = running.call;
  const Shape& shape = *call.shape;
  const bool written = shape.form.writes_to_others();
  const auto go_without = [&] {
    call.inputs.clear();
    call.outputs.clear();
    return true;
  };
  if (!running.is_named() || running.is_shared_out()) return go_without();
  bool is_reached = true;
  const auto reach = [&](int r, const transport::RemoteRange& range, std::uint64_t bytes) {
    transport::LocalPeer& local_peer = *local_peers_[static_cast<std::size_t>(r)];
    std::byte* data = local_peer.reach(range, bytes);
    if (data != nullptr) return data;
    is_reached = false;
    if (running.is_shared_out()) return data;
    if (local_peer.trouble().ok()) {
      fail(operation, r, "named shared memory that it has not passed on");
    } else {
      fail(operation, rank_, local_peer.trouble().message());
    }
    return data;
  };
  call.inputs.resize(static_cast<std::size_t>(size()));
  call.outputs.resize(written ? static_cast<std::size_t>(size()) : 0);
  for (int r = 0; r < size() && is_reached; ++r) {
    const auto at = static_cast<std::size_t>(r);
    const CallDescriptor& descriptor = running.descriptor_of(r);
    if (r == rank_) {
      call.inputs[at] = call.input;
      if (written) call.outputs[at] = call.output;
      continue;
    }
    const std::uint64_t bytes = shape.shown_bytes(r);
    call.inputs[at] = bytes > 0 ? reach(r, descriptor.memory[0], bytes) : nullptr;
    if (written && is_reached) {
      const bool in_place = descriptor.memory[0].region == descriptor.memory[1].region &&
                            descriptor.memory[0].offset == descriptor.memory[1].offset;
      call.outputs[at] =
          in_place ? const_cast<std::byte*>(call.inputs[at]) : reach(r, descriptor.memory[1], bytes);
    }
  }
  return is_reached || (running.is_shared_out() && go_without());
}

/// Whether the memory is still shared: an operation of another communicator that failed may have detached it.
bool Team::is_still_shared(const Running& running) const {
  if (running.losses == transport::shared_memory_losses()) return true;
  const Call& call = running.call;
  const std::uint64_t shown = call.shape->shown_bytes(rank_);
  const bool by_shares = call.shares > 0;  // the other ranks may have done the whole call
  return ((call.inputs.empty() && !by_shares) || shown == 0 || is_shared(call.input, shown)) &&
         ((call.outputs.empty() && !by_shares) || is_shared(call.output, call.shape->bytes()));
}

}  // namespace kolo::engine::shared_memory
