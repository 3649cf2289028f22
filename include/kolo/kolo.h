/// @file
/// The C interface of kolo: collectives, send and receive for C99 and for languages that call C functions.
///
/// The C++ interface (kolo.hpp) says more on each call; here stands what differs. Not in C: custom
/// reductions, sparse sums, options of single calls (KOLO_ALGORITHM and the other variables hold), timelines
/// (KOLO_TIMELINE), stores other than the job's. A thread that is cancelled inside a call (pthread_cancel)
/// first returns from it.
#ifndef KOLO_KOLO_H
#define KOLO_KOLO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How a call ended. After an error, kolo_error_message() says what happened.
typedef enum kolo_status {
  KOLO_OK = 0,  ///< the call did what it was asked for
  KOLO_INVALID_ARGUMENT =
      1,               ///< the arguments cannot be right; no byte has moved, the communicator stays usable
  KOLO_MISMATCH = 2,   ///< the ranks asked for different things
  KOLO_PEER_LOST = 3,  ///< a rank died or closed its connections; kolo_error_rank() is that rank
  KOLO_TIMED_OUT = 4,  ///< nothing moved for KOLO_TIMEOUT
  KOLO_ABORTED = 5,    ///< a rank called kolo_abort()
  KOLO_RENDEZVOUS_FAILED = 6,  ///< the ranks did not find each other
  KOLO_SYSTEM_ERROR = 7        ///< the operating system refused something (memory, sockets, threads)
} kolo_status;

/// The element types. float16 and bfloat16 are the bits in a uint16_t, float8 those in a uint8_t. A boolean
/// is a byte of 0 or 1, a complex64 two floats (float complex), a complex128 two doubles.
typedef enum kolo_dtype {
  KOLO_FLOAT32 = 0,
  KOLO_FLOAT64 = 1,
  KOLO_FLOAT16 = 2,
  KOLO_BFLOAT16 = 3,
  KOLO_INT8 = 4,
  KOLO_INT16 = 5,
  KOLO_INT32 = 6,
  KOLO_INT64 = 7,
  KOLO_UINT8 = 8,
  KOLO_UINT16 = 9,
  KOLO_UINT32 = 10,
  KOLO_UINT64 = 11,
  KOLO_BOOLEAN = 12,
  KOLO_COMPLEX64 = 13,
  KOLO_COMPLEX128 = 14,
  KOLO_FLOAT8_E4M3FN = 15,
  KOLO_FLOAT8_E5M2 = 16
} kolo_dtype;

/// How the ranks' contributions are combined, element by element; the average is their sum divided by the
/// number of ranks, and not of integers. Operations on bits are of integers and booleans.
typedef enum kolo_op {
  KOLO_SUM = 0,
  KOLO_PRODUCT = 1,
  KOLO_MIN = 2,
  KOLO_MAX = 3,
  KOLO_AVERAGE = 4,
  KOLO_BIT_AND = 5,
  KOLO_BIT_OR = 6,
  KOLO_BIT_XOR = 7
} kolo_op;

/// A group of ranks. Thread-safe, as far as the order of calls stays the same on all ranks.
typedef struct kolo_communicator kolo_communicator;
/// A call that was started; kolo_wait() ends it.
typedef struct kolo_work kolo_work;

/// "major.minor.patch" of the library.
const char* kolo_version(void);

/// What happened in this thread's last call that returned an error, in words. Valid until the next such call.
const char* kolo_error_message(void);
/// The rank to blame for that error, in the communicator's numbering; -1: unknown.
int kolo_error_rank(void);

/// Joins the job that the environment describes (kolo run, torchrun, mpirun, srun). Blocks until all ranks
/// have come. kolo_destroy() frees the communicator.
kolo_status kolo_create(kolo_communicator** communicator);
/// Frees the communicator. Null is allowed. Wait for its calls first: when the last communicator of those that
/// kolo_split() has made from one another is destroyed, calls in flight end with an error, on all ranks.
void kolo_destroy(kolo_communicator* communicator);
/// This process's number in the group, from 0; -1 for null.
int kolo_rank(const kolo_communicator* communicator);
/// Number of ranks; -1 for null.
int kolo_size(const kolo_communicator* communicator);

/// Collective: one new communicator per color, ranks ordered by (key, old rank). A negative color gets null.
kolo_status kolo_split(kolo_communicator* communicator, int color, int key, kolo_communicator** part);
/// After a failure: a new communicator of the surviving ranks. Each survivor calls it once it has got its
/// error. The old communicator is still to be destroyed.
kolo_status kolo_shrink(kolo_communicator* communicator, kolo_communicator** survivors);
/// Ends all calls of this communicator on every rank with KOLO_ABORTED and this reason.
kolo_status kolo_abort(kolo_communicator* communicator, const char* reason);

/// Zeroed memory that the ranks of one host read without a copy: faster than other memory for buffers of
/// collectives. Null if there is none left. kolo_free() frees it, once no call uses it.
void* kolo_allocate(size_t bytes);
/// Frees memory of kolo_allocate(). Null is allowed, other memory is left alone.
void kolo_free(void* memory);

// If `work` is null, a call below returns when its result is in place. Otherwise it returns at once: pass
// `*work` to kolo_wait(), and leave the buffers alone until then. `count` is in elements. `in` may be `out`.

/// Every rank ends with the reduction of all contributions, bitwise identical on all ranks.
kolo_status kolo_all_reduce(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                            kolo_dtype dtype, kolo_op op, kolo_work** work);
/// Rank r ends with the reduction of the contributions of ranks 0 to r, in this order. Not KOLO_AVERAGE.
kolo_status kolo_scan(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                      kolo_dtype dtype, kolo_op op, kolo_work** work);
/// Rank r ends with part r of the reduction. `in` holds one part per rank. Part r has counts[r] elements;
/// with `counts` null each part has `count`. In place: `out` is this rank's part of `in`.
kolo_status kolo_reduce_scatter(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                                const uint64_t* counts, kolo_dtype dtype, kolo_op op, kolo_work** work);
/// Every rank ends with all parts, in the order of ranks. Lengths of parts as for kolo_reduce_scatter(). In
/// place: `in` is this rank's part of `out`.
kolo_status kolo_all_gather(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                            const uint64_t* counts, kolo_dtype dtype, kolo_work** work);
/// Every rank ends with the root's data.
kolo_status kolo_broadcast(kolo_communicator* communicator, void* data, uint64_t count, kolo_dtype dtype,
                           int root, kolo_work** work);
/// The root ends with the reduction in `out`, which is ignored on other ranks.
kolo_status kolo_reduce(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                        kolo_dtype dtype, kolo_op op, int root, kolo_work** work);
/// Rank r ends with part r of the root's `in`, which is ignored on other ranks. Lengths as for
/// kolo_reduce_scatter().
kolo_status kolo_scatter(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                         const uint64_t* counts, kolo_dtype dtype, int root, kolo_work** work);
/// The root ends with all parts in `out`, which is ignored on other ranks. Lengths as for
/// kolo_reduce_scatter().
kolo_status kolo_gather(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                        const uint64_t* counts, kolo_dtype dtype, int root, kolo_work** work);
/// Rank r gets in part s of `out` what rank s has in part r of `in`: send_counts[r] elements go to rank r,
/// recv_counts[s] come from rank s. With both null each part has `count` elements, and `in` may be `out`.
kolo_status kolo_all_to_all(kolo_communicator* communicator, const void* in, void* out, uint64_t count,
                            const uint64_t* send_counts, const uint64_t* recv_counts, kolo_dtype dtype,
                            kolo_work** work);
/// Returns when every rank has called it.
kolo_status kolo_barrier(kolo_communicator* communicator, kolo_work** work);

/// The k-th send to a peer with a tag matches the peer's k-th receive with that tag. Counts are equal; tags
/// are 0 to 2^31 - 1.
kolo_status kolo_send(kolo_communicator* communicator, const void* data, uint64_t count, kolo_dtype dtype,
                      int peer, int tag, kolo_work** work);
kolo_status kolo_recv(kolo_communicator* communicator, void* data, uint64_t count, kolo_dtype dtype, int peer,
                      int tag, kolo_work** work);
/// Receives from whichever rank sends first with this tag, and blocks until then. `source` may be null.
kolo_status kolo_recv_any(kolo_communicator* communicator, void* data, uint64_t count, kolo_dtype dtype,
                          int tag, int* source);

/// Blocks until the call is done, returns how it ended, and frees `work`. Null is done.
kolo_status kolo_wait(kolo_work* work);
/// Makes progress once without blocking. `*is_done` becomes 1 if the call is done, also if it has failed,
/// else 0. kolo_wait() is still to be called.
kolo_status kolo_test(kolo_work* work, int* is_done);

#ifdef __cplusplus
}
#endif

#endif
