/// @file
/// The types of the C interface: what kolo.h's functions take and return.
#ifndef KOLO_KOLO_TYPES_H
#define KOLO_KOLO_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef __cplusplus
/// In C++, a value that is no enumerator may be passed too: it is an error, and not undefined.
#define KOLO_INT_IN_CPP
#else
#define KOLO_INT_IN_CPP : int
#endif

/// How a call ended. After an error, kolo_error_message() says what happened.
typedef enum kolo_status KOLO_INT_IN_CPP {
  KOLO_OK = 0,  ///< the call did what it was asked for
  KOLO_INVALID_ARGUMENT =
      1,               ///< the arguments cannot be right; no byte has moved, the communicator stays usable
  KOLO_MISMATCH = 2,   ///< the ranks asked for different things
  KOLO_PEER_LOST = 3,  ///< a rank died or closed its connections; kolo_error_rank() is that rank
  KOLO_TIMED_OUT = 4,  ///< nothing moved for the timeout of the call or its communicator
  KOLO_ABORTED = 5,    ///< a rank called kolo_abort()
  KOLO_RENDEZVOUS_FAILED = 6,  ///< the ranks did not find each other
  KOLO_SYSTEM_ERROR = 7,       ///< the operating system refused something (memory, sockets, threads)
  KOLO_NO_QUORUM = 8           ///< too few ranks are left to go on, see kolo_regroup()
} kolo_status;

/// The element types. float16 and bfloat16 are the bits in a uint16_t, float8 those in a uint8_t. A boolean
/// is a byte of 0 or 1, a complex64 two floats (float complex), a complex128 two doubles.
typedef enum kolo_dtype KOLO_INT_IN_CPP {
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
/// number of ranks, and not of integers. Operations on bits are of integers and booleans. Only kolo_start() takes
/// the last two: a sum of contributions times kolo_call::factor, and what kolo_call::combine does.
typedef enum kolo_op KOLO_INT_IN_CPP {
  KOLO_SUM = 0,
  KOLO_PRODUCT = 1,
  KOLO_MIN = 2,
  KOLO_MAX = 3,
  KOLO_AVERAGE = 4,
  KOLO_BIT_AND = 5,
  KOLO_BIT_OR = 6,
  KOLO_BIT_XOR = 7,
  KOLO_PREMULTIPLIED_SUM = 64,
  KOLO_CUSTOM = 65
} kolo_op;

/// What a kolo_call does: see the function of that name.
typedef enum kolo_collective KOLO_INT_IN_CPP {
  KOLO_ALL_REDUCE = 0,
  KOLO_REDUCE_SCATTER = 1,
  KOLO_ALL_GATHER = 2,
  KOLO_BROADCAST = 3,
  KOLO_REDUCE = 4,
  KOLO_SCATTER = 5,
  KOLO_GATHER = 6,
  KOLO_ALL_TO_ALL = 7,
  KOLO_SCAN = 8,
  KOLO_BARRIER = 9,
  KOLO_SEND = 64,
  KOLO_RECV = 65
} kolo_collective;

/// How float32 numbers travel between ranks; docs/training/compression.md tells what each costs in accuracy.
typedef enum kolo_wire KOLO_INT_IN_CPP {
  KOLO_WIRE_DEFAULT = 0,   ///< KOLO_WIRE of the environment where it fits, else native
  KOLO_WIRE_NATIVE = 1,    ///< the numbers as they are
  KOLO_WIRE_BFLOAT16 = 2,  ///< half the bytes
  KOLO_WIRE_FLOAT16 = 3,   ///< half the bytes; beyond 65504 infinite
  KOLO_WIRE_INT8 = 4       ///< a quarter of the bytes
} kolo_wire;

/// What kind of device memory is on.
typedef enum kolo_device_kind KOLO_INT_IN_CPP { KOLO_HOST = 0, KOLO_CUDA = 1 } kolo_device_kind;

/// A time that never passes.
#define KOLO_FOREVER INT64_MAX
/// As a peer: the rank that sends first.
#define KOLO_ANY_RANK (-1)

/// A group of ranks. Thread-safe, as far as the order of calls stays the same on all ranks.
typedef struct kolo_communicator kolo_communicator;
/// A call that was started; kolo_wait(), kolo_wait_all() or kolo_release() frees it. Null is a call that is
/// done.
typedef struct kolo_work kolo_work;
/// A key-value store through which ranks find each other.
typedef struct kolo_store kolo_store;
/// The server of a store over TCP.
typedef struct kolo_store_server kolo_store_server;
/// What a rank did when, for Perfetto.
typedef struct kolo_timeline kolo_timeline;
/// Sums of sparse vectors over the ranks of a communicator.
typedef struct kolo_sparse kolo_sparse;
/// Calls that start together.
typedef struct kolo_batch kolo_batch;
/// The memory of a sparse sum.
typedef struct kolo_sparse_memory kolo_sparse_memory;

// A new member of a structure begins at its size of before, and not in its padding, which may hold anything.

/// Typed memory, which kolo does not own. It only reads that of an `in`.
typedef struct kolo_buffer {
  void* data;           ///< the first element; null only if `count` is 0
  uint64_t count;       ///< elements, not bytes
  int32_t dtype;        ///< a kolo_dtype
  int32_t device_kind;  ///< a kolo_device_kind
  int32_t device;       ///< the number of the device of that kind
} kolo_buffer;

/// `out[i] = left[i] op right[i]` for `count` elements of `dtype`; `out` may be `left` or `right`. Anything
/// but 0 as the result ends the call on every rank with KOLO_INVALID_ARGUMENT. It must not call kolo.
typedef int (*kolo_combine)(void* context, void* out, const void* left, const void* right, uint64_t count,
                            kolo_dtype dtype);

/// A call with all its arguments, for kolo_start(). Ranks must agree on all members below `factor` but `stream`
/// and `timeout_ns`. Sends and receives have no members but `size` to `tag`, `stream` and `timeout_ns`. Lists are for the `in` of a
/// reduce_scatter or scatter, the `out` of an all_gather or gather, and both of an all_to_all; batches take none.
typedef struct kolo_call {
  size_t size;                  ///< sizeof(kolo_call)
  int32_t collective;           ///< a kolo_collective
  int32_t op;                   ///< a kolo_op
  kolo_buffer in;               ///< all that this rank gives: of a reduce_scatter the parts of all ranks
  kolo_buffer out;              ///< all that it gets; a broadcast and a recv have `out` alone
  const kolo_buffer* in_list;   ///< instead of `in`: a buffer for each rank's part; null: `in`
  const kolo_buffer* out_list;  ///< instead of `out`
  const uint64_t* counts;       ///< elements of each rank's part, or null: equal parts. To rank r (all_to_all)
  const uint64_t* recv_counts;  ///< of an all_to_all: elements that come from each rank
  int32_t root;                 ///< of a broadcast, reduce, scatter or gather
  int32_t peer;                 ///< of a send or recv; KOLO_ANY_RANK in a recv: whichever sends first
  int32_t tag;                  ///< of a send or recv, from 0
  int32_t is_commutative;       ///< of `combine`: not 0 if kolo may change the order of operands
  double factor;                ///< of a KOLO_PREMULTIPLIED_SUM, this rank's
  kolo_combine combine;         ///< of a KOLO_CUSTOM
  void* context;                ///< what `combine` gets; valid until the call is done
  const char* name;             ///< of `combine`, for errors; the same on all ranks
  const char* algorithm;        ///< a registered name; null: KOLO_ALGORITHM, else kolo's choice
  uint64_t segment_bytes;       ///< 0: KOLO_SEGMENT_BYTES
  const char* label;            ///< what the call is for: ranks that differ get KOLO_MISMATCH; null: any
  uint32_t label_number;        ///< which of those calls it is
  int32_t wire;                 ///< a kolo_wire
  void* stream;                 ///< for buffers on a device: its stream (cudaStream_t)
  int64_t timeout_ns;           ///< longest time without progress; 0: kolo_timeout()
  int32_t waits_at_once;        ///< of kolo_start: not 0 if the caller waits for the call right away
} kolo_call;

/// How a communicator is made.
typedef struct kolo_options {
  size_t size;              ///< sizeof(kolo_options)
  int64_t timeout_ns;       ///< longest time without progress, and longest rendezvous; 0: KOLO_TIMEOUT
  const char* transports;   ///< those allowed, best first: "shm,tcp"; null: KOLO_TRANSPORTS
  kolo_timeline* timeline;  ///< where operations are recorded; may be null, and be freed
  const char* key;          ///< the job's, of 16 characters or more; null: KOLO_KEY or KOLO_KEY_FILE
  int32_t skip_measuring;   ///< not 0: do not measure what messages cost; the same on all ranks
  const char* program;      ///< see kolo::Options; may be null
  const char* process;      ///< see kolo::Options; may be null
} kolo_options;

/// Which groups kolo_regroup() may make, see kolo::RegroupOptions.
typedef struct kolo_regroup_options {
  size_t size;                           ///< sizeof(kolo_regroup_options)
  int32_t least;                         ///< with fewer ranks it returns KOLO_NO_QUORUM
  int32_t most;                          ///< more newcomers wait on; 0: no limit
  const int* ended;                      ///< ranks that are known to have ended
  size_t ended_count;                    ///< number of `ended`
  kolo_store* (*serve)(void* context);   ///< serves a new store, which kolo frees; may be null
  void* context;                         ///< for `serve`
} kolo_regroup_options;

/// What went over the links of one rank, in payload bytes.
typedef struct kolo_counters {
  size_t size;                 ///< sizeof(kolo_counters)
  uint64_t bytes_sent;         ///< payload to other ranks
  uint64_t bytes_received;     ///< payload from other ranks
  uint64_t messages_sent;      ///< messages to other ranks
  uint64_t messages_received;  ///< messages from other ranks
  uint64_t operations;         ///< calls begun, also those that need no message
} kolo_counters;

/// What a call is expected to take.
typedef struct kolo_estimate {
  size_t size;            ///< sizeof(kolo_estimate)
  double time;            ///< seconds from the start on all ranks until the last one is done
  uint64_t bytes_sent;    ///< payload of the rank that sends most
  int32_t measured;       ///< 1: `time` comes from the tuning table; 0: from the cost model
  int32_t shared_memory;  ///< 1: the call runs in memory that all ranks share, without messages
  char algorithm[128];    ///< what kolo_algorithm() of such a call says, cut off if it is longer
} kolo_estimate;

/// A message that has come, or has begun to come.
typedef struct kolo_message {
  size_t size;     ///< sizeof(kolo_message)
  int32_t source;  ///< the rank that sent it; KOLO_ANY_RANK: none has come
  int32_t dtype;   ///< the kolo_dtype of its elements
  uint64_t count;  ///< number of its elements
} kolo_message;

/// The place of this process in its job.
typedef struct kolo_launch {
  size_t size;         ///< sizeof(kolo_launch)
  int32_t rank;        ///< this process's number in the job
  int32_t ranks;       ///< processes of the job
  int32_t local_rank;  ///< this process's number on its host
  int32_t local_size;  ///< processes of the job on this host
  char launcher[64];   ///< "torchrun", "Open MPI", "Slurm", "MPICH", or "none" for a single process
} kolo_launch;

/// A store of the caller's own: its functions. They return a kolo_status, and may be called by several
/// threads at once. Keys are texts of up to 1 KiB, values up to 1 MiB of any bytes.
typedef struct kolo_store_functions {
  size_t size;    ///< sizeof(kolo_store_functions)
  void* context;  ///< what all of them get
  /// Sets or overwrites.
  int (*set)(void* context, const char* key, const void* value, size_t bytes);
  /// Blocks until the key exists, at most `timeout_ns`, which may be 0, and then returns KOLO_TIMED_OUT.
  /// Writes the value, of at most `capacity` bytes, and its length.
  int (*get)(void* context, const char* key, int64_t timeout_ns, void* value, size_t capacity, size_t* bytes);
  /// Adds to a decimal number, 0 if absent, keeps the digits of the sum as the value, and gives it; atomic.
  int (*add)(void* context, const char* key, int64_t amount, int64_t* sum);
  /// Removes the key if it exists.
  int (*remove)(void* context, const char* key);
  /// May be null; else called once, after all other calls.
  void (*release)(void* context);
  const char* name;  ///< for messages
} kolo_store_functions;

/// How sparse vectors are summed; the ranks must agree on all of it.
typedef struct kolo_sparse_options {
  size_t size;                  ///< sizeof(kolo_sparse_options)
  const int* degrees;           ///< ranks that exchange in each layer; null: kolo's choice
  size_t layers;                ///< number of `degrees`
  const double* dense_share;    ///< see kolo::SparseOptions; null: kolo's choice
  const char* dense_algorithm;  ///< of the dense form; null: kolo's choice
} kolo_sparse_options;

/// A matrix of `length` rows of `width` elements, of which most rows are absent, which counts as zero.
typedef struct kolo_sparse_vector {
  size_t size;                 ///< sizeof(kolo_sparse_vector)
  uint64_t length;             ///< rows, with the absent ones
  uint64_t width;              ///< elements of a row
  uint64_t count;              ///< rows that are there
  const uint64_t* indices;     ///< of those rows: ascending, each once
  const void* values;          ///< of those rows, one after another
  int32_t dtype;               ///< the kolo_dtype of an element
  kolo_sparse_memory* memory;  ///< of a sum, for kolo_release(); of others ignored
} kolo_sparse_vector;

/// Called with its context once a call is done, with its outcome. After an error, kolo_error_message() and
/// kolo_error_rank() say more. `work` is freed when the callback returns.
typedef void (*kolo_callback)(void* context, kolo_work* work, kolo_status status);

#undef KOLO_INT_IN_CPP
#ifdef __cplusplus
}
#endif

#endif
