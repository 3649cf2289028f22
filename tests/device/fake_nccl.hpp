// What tests tell the fake NCCL: a library with the name of the real one. Its ranks are threads of one
// process, its kernels run on the fake driver's streams. A kernel that waits for other ranks ends when its
// own rank aborts, not when another one does.
#pragma once

extern "C" {

/// Communicators that have been neither destroyed nor aborted.
int fake_nccl_communicators();
/// Those that were aborted since the process began.
int fake_nccl_aborts();
/// From now on kernels never end, until their rank aborts: as when a link between GPUs is down.
void fake_nccl_hang(bool hangs);
/// From now on all communicators have met this error (ncclResult_t); 0: none.
void fake_nccl_break(int code);
}
