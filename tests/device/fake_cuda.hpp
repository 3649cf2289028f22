// What tests tell the fake CUDA driver. The library has the name of the real one, and no device: streams are
// threads, and a device's memory is memory that the host may not touch.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Memory of a device; null without a device of that number.
void* fake_cuda_allocate(int device, std::size_t bytes);
/// The same, but managed memory.
void* fake_cuda_allocate_managed(int device, std::size_t bytes);
void fake_cuda_free(void* memory);
/// The same memory, where the test may touch it.
void* fake_cuda_inside(void* memory);
/// A kernel: puts one write, of a copy of `from`, on a stream, which is late by up to `delay_us`.
void fake_cuda_write_on(void* stream, void* to, const void* from, std::size_t bytes, int delay_us);
/// A kernel that reads: copies to the host at its place in the stream's work.
void fake_cuda_read_on(void* stream, void* to, const void* from, std::size_t bytes);

/// Of another fake: the code that a test wants this call of a function to have.
int fake_cuda_enter(const char* function);
/// Whether one has failed since fake_cuda_fail().
bool fake_cuda_has_failed();
/// A kernel of another fake: calls `work` at its place in the stream's work. False: there is no such stream.
/// `drop` is called in any case, at the end.
bool fake_cuda_put(void* stream, void (*work)(void*), void* argument, void (*drop)(void*));

/// The function's call of that number from now on, 1 is the next, and all after it, fail with this code. 0:
/// none.
/// "": calls of any function are counted.
void fake_cuda_fail(const char* function, int number, int code);
/// Calls of any function since fake_cuda_fail().
int fake_cuda_calls();
/// The name of the function that has failed by it; empty if none has.
const char* fake_cuda_failed();
/// Operations of streams are late by up to so much, in an order that the seed decides.
void fake_cuda_delay(int most_us, unsigned seed);
/// From now on recordings of events do nothing: what orders streams is missing.
void fake_cuda_forget_records(bool forgets);

/// What is there: streams and events, registered regions, retained contexts, allocations.
struct FakeCudaCounts {
  int streams, events, regions, contexts, allocations;
};
FakeCudaCounts fake_cuda_counts();
/// Copies between a device and memory of the host that was not registered.
int fake_cuda_unregistered_copies();
}
