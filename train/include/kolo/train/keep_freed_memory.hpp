// Memory that tensors free stays with the process.
#pragma once

namespace kolo {

/// Lets malloc() keep up to 1 GiB of freed memory for the next step. A training step allocates what the step
/// before has freed. By default glibc returns much of it to the system, and the next step pays a page fault
/// for every 4 KiB: up to 2.7 times the time of a step (docs/training.md). Heaps of other threads than the
/// main one stay, too. Call it once, at the beginning of main(). It changes the whole process: resident
/// memory no longer falls when tensors are freed. Does nothing where the C library is not glibc. Any thread.
void keep_freed_memory();

}  // namespace kolo
