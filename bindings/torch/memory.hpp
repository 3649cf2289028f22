// Tensors in shared memory: what PyTorch allocates on the CPU comes from kolo's SharedArena while asked to.
#pragma once

namespace kolo::pytorch {

/// From here on, tensors of 64 KiB and more that this thread makes lie in shared memory, or no longer do so.
/// Each call with true needs one with false. Where shared memory runs out, they lie in private memory.
void share_in_this_thread(bool on);

/// The same for all threads. Freed memory is kept for the next tensor of its size, up to 1 GiB.
void share_in_all_threads(bool on);

}  // namespace kolo::pytorch
