/// @file
/// The C interface of kolo, for C99 and for languages that call C functions.
///
/// The C++ interface (kolo.hpp) says more on each call; here stands what differs.
///
/// Functions return a kolo_status; after one that is not KOLO_OK, kolo_error_message() says what happened, and
/// names the call and, if that is a communicator's, the rank. No exception leaves a function. Handles are
/// opaque: one that is null, has been freed or is of another kind is KOLO_INVALID_ARGUMENT, or where a function
/// returns no status, what its comment says. A handle may be freed while calls that it began still run, not
/// while another thread's function uses it.
///
/// A structure, but for kolo_buffer, begins with its `size`, which the caller sets to its sizeof. 0 is the
/// default of all other members: `kolo_call call = {.size = sizeof call, .collective = KOLO_BARRIER}`. Later
/// versions append members, and take the structures of earlier ones.
///
/// Times are in nanoseconds, and KOLO_FOREVER; a negative one is KOLO_INVALID_ARGUMENT. Texts end with a 0.
/// A text that a function returns is valid until this thread asks kolo for another text, and null after an
/// error. A function of the caller's that is given to kolo may be called from another thread. A thread that
/// is cancelled inside a call (pthread_cancel) first returns from it.
#ifndef KOLO_KOLO_H
#define KOLO_KOLO_H

#include "kolo/kolo_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/// "major.minor.patch" of the library.
const char* kolo_version(void);

/// What happened in this thread's last call that returned an error, in words. Valid until the next such call.
const char* kolo_error_message(void);
/// The rank to blame for that error, in the communicator's numbering; -1: unknown.
int kolo_error_rank(void);
/// The name of a value, as "peer_lost", "float32", "sum", "bfloat16": a constant; null if there is none.
const char* kolo_status_name(kolo_status status);
const char* kolo_dtype_name(kolo_dtype dtype);
const char* kolo_op_name(kolo_op op);
const char* kolo_wire_name(kolo_wire wire);
/// Bytes of an element; 0 if there is no such type.
size_t kolo_dtype_bytes(kolo_dtype dtype);

/// Frees a handle of any kind. Null is allowed. A call goes on without its handle, and borrows its buffers until
/// it is done. What was made in a store, records in a timeline or sums over a communicator keeps that.
kolo_status kolo_release(void* handle);

// --- Communicators

/// Joins the job that the environment describes (kolo run, torchrun, mpirun, srun). Blocks until all ranks
/// have come. kolo_destroy() frees the communicator.
kolo_status kolo_create(kolo_communicator** communicator);
/// As kolo_create(), with options, which may be null.
kolo_status kolo_create_with(const kolo_options* options, kolo_communicator** communicator);
/// Joins as rank `rank` of `size` ranks that meet in `store`, which may be freed then. One store serves one
/// communicator after another; for several at once, use kolo_prefix_store(). `options` may be null.
kolo_status kolo_create_in(kolo_store* store, int rank, int size, const kolo_options* options,
                           kolo_communicator** communicator);
/// Joins a group that is there already, at its next kolo_regroup(). `options` may be null.
kolo_status kolo_join(kolo_store* store, const kolo_options* options, kolo_communicator** communicator);
/// The same, in the first of `count` stores ("tcp://host:port", "file:///path") where a group takes it.
kolo_status kolo_join_one_of(const char* const* stores, size_t count, const kolo_options* options,
                             kolo_communicator** communicator);
/// Frees the communicator, as kolo_release(). Null is allowed. Wait for its calls first: when the last
/// communicator of those that kolo_split() has made from one another is destroyed, calls in flight end with an
/// error, on all ranks.
kolo_status kolo_destroy(kolo_communicator* communicator);
/// This process's number in the group, from 0; -1 for what is no communicator.
int kolo_rank(const kolo_communicator* communicator);
/// Number of ranks; -1 for what is no communicator.
int kolo_size(const kolo_communicator* communicator);
/// Whether both are one group: 1 or 0; 0 if one of them is no communicator.
int kolo_is_same(const kolo_communicator* left, const kolo_communicator* right);
/// The transport that links this rank to `peer`: "shm", "tcp", "inproc"; "self" for its own rank.
const char* kolo_transport_to(const kolo_communicator* communicator, int peer);
/// Where ranks of other hosts find this one, and why there, for messages; empty if no link goes through tcp.
const char* kolo_network(const kolo_communicator* communicator);
/// What went over this rank's links so far.
kolo_status kolo_get_counters(const kolo_communicator* communicator, kolo_counters* counters);
/// The longest time without any progress in an operation; -1 for what is no communicator.
int64_t kolo_timeout(const kolo_communicator* communicator);
/// Changes that for the calls that start from now on. It must be positive.
kolo_status kolo_set_timeout(kolo_communicator* communicator, int64_t timeout_ns);
/// What one call of `call->collective` is expected to take, with its algorithm, segment, wire and label; its
/// other members are ignored. `bytes`: the whole data in the ranks' memory. Sends nothing.
kolo_status kolo_get_estimate(const kolo_communicator* communicator, const kolo_call* call, uint64_t bytes,
                              kolo_estimate* estimate);
/// The label of collectives from now on that have none of their own. All ranks must do it between the same
/// calls. An empty text: none.
kolo_status kolo_set_label(kolo_communicator* communicator, const char* label, uint32_t number);

/// Collective: one new communicator per color, ranks ordered by (key, old rank). A negative color gets null.
kolo_status kolo_split(kolo_communicator* communicator, int color, int key, kolo_communicator** part);
/// Collective: the `count` listed ranks, in that order, form a new communicator; all others get null.
kolo_status kolo_subgroup(kolo_communicator* communicator, const int* ranks, size_t count,
                          kolo_communicator** group);
/// As kolo_subgroup(), but only the listed ranks call it, and this rank is one of them.
kolo_status kolo_create_group(kolo_communicator* communicator, const int* ranks, size_t count,
                              kolo_communicator** group);
/// After a failure: a new communicator of the surviving ranks. Each survivor calls it once it has got its
/// error. The old communicator is still to be destroyed.
kolo_status kolo_shrink(kolo_communicator* communicator, kolo_communicator** survivors);
/// The same, with newcomers that wait in `store`; null: that of before. `options` may be null. KOLO_NO_QUORUM:
/// too few ranks are left.
kolo_status kolo_regroup(kolo_communicator* communicator, kolo_store* store, const kolo_regroup_options* options,
                         kolo_communicator** group);
/// Whether a newcomer waits: 1 or 0. Only rank 0 knows, it is 0 elsewhere.
int kolo_has_newcomers(const kolo_communicator* communicator);
/// Ends all calls of this communicator on every rank with KOLO_ABORTED and this reason.
kolo_status kolo_abort(kolo_communicator* communicator, const char* reason);

// --- Memory

/// Zeroed memory that the ranks of one host read without a copy: faster than other memory for buffers of
/// collectives. Null if there is none left. kolo_free() frees it, once no call uses it.
void* kolo_allocate(size_t bytes);
/// Frees memory of kolo_allocate(). Null is allowed; other memory is left alone, and an error.
kolo_status kolo_free(void* memory);
/// Whether the whole range is such memory: 1 or 0.
int kolo_is_shared(const void* memory, size_t bytes);

// --- Collectives, sends and receives

/// Starts any call, with all its arguments. Null as `work`: returns when its result is in place.
kolo_status kolo_start(kolo_communicator* communicator, const kolo_call* call, kolo_work** work);

/// Collects calls of the communicator, and starts them together: many short ones cost about as much as one that
/// is as long as all. All ranks collect the same calls in the same order. See kolo::CallBatch.
kolo_status kolo_batch_create(kolo_communicator* communicator, kolo_batch** batch);
/// Adds a call, which is checked at once; not a barrier, and not a receive from any rank.
kolo_status kolo_batch_add(kolo_batch* batch, const kolo_call* call);
/// Number of calls; 0 for what is no batch.
size_t kolo_batch_size(const kolo_batch* batch);
/// Forgets all calls; those that are under way go on.
kolo_status kolo_batch_clear(kolo_batch* batch);
/// Starts all calls. `works` has room for kolo_batch_size() of them; null: returns when all are done. May be
/// called again then.
kolo_status kolo_batch_start(kolo_batch* batch, kolo_work** works);

// Short forms of kolo_start(). If `work` is null, a call below returns when its result is in place. Otherwise
// it returns at once: pass `*work` to kolo_wait(), and leave the buffers alone until then. `count` is in
// elements. `in` may be `out`.

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
/// are 0 to 2^31 - 1. The peer of a receive may be KOLO_ANY_RANK: kolo_source() tells which it was.
kolo_status kolo_send(kolo_communicator* communicator, const void* data, uint64_t count, kolo_dtype dtype,
                      int peer, int tag, kolo_work** work);
kolo_status kolo_recv(kolo_communicator* communicator, void* data, uint64_t count, kolo_dtype dtype, int peer,
                      int tag, kolo_work** work);
/// Receives from whichever rank sends first with this tag, and blocks until then. `source` may be null.
kolo_status kolo_recv_any(kolo_communicator* communicator, void* data, uint64_t count, kolo_dtype dtype,
                          int tag, int* source);
/// Sends `out` to one rank and receives `in` from another, or from the same one, at once. `works`, if not
/// null, is an array of two: the send's and the receive's.
kolo_status kolo_sendrecv(kolo_communicator* communicator, const kolo_buffer* out, int to,
                          const kolo_buffer* in, int from, int tag, kolo_work** works);
/// Waits until a message with this tag has come from `peer`, or KOLO_ANY_RANK, that no receive has taken or
/// waits for. The message stays. After `timeout_ns`, `message->source` is KOLO_ANY_RANK, and nothing has
/// failed. 0: looks once.
kolo_status kolo_probe(kolo_communicator* communicator, int peer, int tag, int64_t timeout_ns,
                       kolo_message* message);

// --- Calls that were started

/// Blocks until the call is done, returns how it ended, and frees `work`. Null is done.
kolo_status kolo_wait(kolo_work* work);
/// Blocks at most `timeout_ns`; `*is_done` becomes 1 if the call is done, and the result is how it ended, or
/// 0. The call goes on. kolo_wait() is still to be called.
kolo_status kolo_wait_for(kolo_work* work, int64_t timeout_ns, int* is_done);
/// Blocks until one of the calls is done, at most `timeout_ns`; `*index` becomes its place in `works`, the
/// lowest if several are done, or `count` if none is. kolo_wait() of it tells how it ended.
kolo_status kolo_wait_any(kolo_work* const* works, size_t count, int64_t timeout_ns, size_t* index);
/// Blocks until all calls are done, at most `timeout_ns`. If they are, `*is_done` (which may be null) becomes
/// 1, all of `works` are freed, and the result is that of the first that failed. Else it becomes 0.
kolo_status kolo_wait_all(kolo_work* const* works, size_t count, int64_t timeout_ns, int* is_done);
/// Makes progress once without blocking. `*is_done` becomes 1 if the call is done, also if it has failed,
/// else 0. kolo_wait() is still to be called.
kolo_status kolo_test(kolo_work* work, int* is_done);
/// Whether the call is done, also if it has failed: 1 or 0; never blocks and makes no progress. 1 for null, -1
/// for what is no work.
int kolo_is_done(const kolo_work* work);
/// Calls `callback` once, on a thread of kolo's, when the call is done; `work` may be freed before. A callback
/// may start calls and wait, and destroy communicators. See kolo::Work::then().
kolo_status kolo_then(kolo_work* work, kolo_callback callback, void* context);
/// Work that is put on `stream` (cudaStream_t) from now on sees the result. Waits for a call that the host
/// carries out.
kolo_status kolo_order(kolo_work* work, void* stream);
/// The time that the call took; 0 while it runs, -1 for what is no work.
int64_t kolo_duration(const kolo_work* work);
/// The algorithm that the call ran: "ring". Empty for sends and receives.
const char* kolo_algorithm(const kolo_work* work);
/// The rank that sent, of a receive that is done; -1 of any other work.
int kolo_source(const kolo_work* work);
/// How many ranks' parts are missing in a call that is not done, as far as this rank can tell without asking;
/// -1 for what is no work. `ranks` gets the first `room` of them; null with 0.
int kolo_waiting_for(const kolo_work* work, int* ranks, size_t room);

// --- Stores

/// The place of this process in its job, as its launcher has set it in the environment.
kolo_status kolo_launch_from_environment(kolo_launch* launch);
/// The job's store, as the environment says. `key`: the job's; null: that of the environment. A rank's n-th
/// call meets the n-th calls of the other ranks.
kolo_status kolo_environment_store(int64_t timeout_ns, const char* key, kolo_store** store);
/// Whether the job's store stays when ranks end: `*outlives` becomes 1 or 0.
kolo_status kolo_store_outlives_ranks(int* outlives);
/// A store for ranks that are threads of one process.
kolo_status kolo_memory_store(kolo_store** store);
/// A store in a file that all ranks can reach. It is created where there is none, and stays.
kolo_status kolo_file_store(const char* path, kolo_store** store);
/// A client of a kolo_serve_tcp_store(). Retries until the server answers, at most `timeout_ns`. A null `key`
/// is an empty one.
kolo_status kolo_tcp_store(const char* host, uint16_t port, const char* key, int64_t timeout_ns,
                           kolo_store** store);
/// Serves a store on `host` (null: on all interfaces), at a free port if `port` is 0. Clients must prove that
/// they know `key`; it may be empty, or null, on loopback alone. kolo_release() ends it.
kolo_status kolo_serve_tcp_store(const char* host, uint16_t port, const char* key,
                                 kolo_store_server** server);
/// The port of the server; -1 for what is no server.
int kolo_store_server_port(const kolo_store_server* server);
/// A view of `store`, which may be freed then, in which every key has this prefix.
kolo_status kolo_prefix_store(const char* prefix, kolo_store* store, kolo_store** view);
/// A store of the caller's own functions, which are copied.
kolo_status kolo_own_store(const kolo_store_functions* functions, kolo_store** store);
/// Sets or overwrites a value.
kolo_status kolo_store_set(kolo_store* store, const char* key, const void* value, size_t bytes);
/// Blocks until the key exists; KOLO_TIMED_OUT after `timeout_ns`. Writes the value, and its length to
/// `*bytes`. If that is more than `capacity`, nothing else is written: KOLO_INVALID_ARGUMENT.
kolo_status kolo_store_get(kolo_store* store, const char* key, int64_t timeout_ns, void* value,
                           size_t capacity, size_t* bytes);
/// Adds to a decimal number, 0 if absent; `*sum` becomes the sum. Atomic between ranks.
kolo_status kolo_store_add(kolo_store* store, const char* key, int64_t amount, int64_t* sum);
/// Blocks until all keys exist, at most `timeout_ns`; `*missing` becomes the number of those that do not.
kolo_status kolo_store_wait(kolo_store* store, const char* const* keys, size_t count, int64_t timeout_ns,
                            size_t* missing);
/// Removes a key if it exists.
kolo_status kolo_store_remove(kolo_store* store, const char* key);
/// For messages: "tcp://10.0.0.1:29500".
const char* kolo_store_describe(const kolo_store* store);

// --- Sparse sums

/// Collective. `options` may be null. The communicator may be destroyed then.
kolo_status kolo_sparse_create(kolo_communicator* communicator, const kolo_sparse_options* options,
                               kolo_sparse** sparse);
/// Collective: every rank gets the sums of all rows that any rank has, with the same bits.
/// kolo_release() of `sum->memory` frees its arrays.
kolo_status kolo_sparse_sum(kolo_sparse* sparse, const kolo_sparse_vector* mine, kolo_sparse_vector* sum);
/// The ranks that exchange in each layer; valid until kolo_release().
kolo_status kolo_sparse_degrees(const kolo_sparse* sparse, const int** degrees, size_t* layers);

// --- Timelines

/// A timeline of at most `capacity` spans; 0: 2^20.
kolo_status kolo_timeline_create(size_t capacity, kolo_timeline** timeline);
/// Adds a span. Times are those of CLOCK_MONOTONIC. `arguments`: the inside of a JSON object, or null.
kolo_status kolo_timeline_span(kolo_timeline* timeline, const char* name, const char* track, int64_t begin_ns,
                               int64_t end_ns, const char* arguments);
/// Drops spans while `paused` is not 0.
kolo_status kolo_timeline_pause(kolo_timeline* timeline, int paused);
/// Spans that are kept, and spans beyond the capacity; 0 for what is no timeline.
size_t kolo_timeline_size(const kolo_timeline* timeline);
size_t kolo_timeline_dropped(const kolo_timeline* timeline);
/// Begin of the earliest span; INT64_MAX if there is none, -1 for what is no timeline.
int64_t kolo_timeline_first_begin(const kolo_timeline* timeline);
/// How far the system's clock was ahead of the steady one; -1 for what is no timeline.
int64_t kolo_timeline_wall_clock(const kolo_timeline* timeline);
/// This rank's events as elements of a Chrome trace's "traceEvents", times shifted by `shift_ns`.
const char* kolo_timeline_chrome_events(const kolo_timeline* timeline, int rank, const char* host,
                                        int64_t shift_ns);
/// This rank's Chrome trace in a file of its own, for `kolo trace merge`; `group` is the same on all ranks.
kolo_status kolo_timeline_write(const kolo_timeline* timeline, const char* path, int rank, const char* host,
                                const char* group);
/// Collective: gathers every rank's spans and writes one Chrome trace at rank 0.
kolo_status kolo_write_timeline(kolo_communicator* communicator, const kolo_timeline* timeline,
                                const char* path);

#ifdef __cplusplus
}
#endif

#endif
