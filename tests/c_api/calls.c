/* kolo_start(): calls with all their arguments; messages between two ranks. */
#include <stdatomic.h>

#include "program.h"

/* kolo_start() does what the short forms do. */
static void every_collective(void) {
  float in[kMostRanks], out[kMostRanks], one = (float)(rank + 1), sum = 0;
  for (int r = 0; r < ranks; ++r) in[r] = (float)(10 * rank + r);
  const float total = (float)(ranks * (ranks + 1)) / 2;
  const int root = ranks - 1;
  kolo_call call = {.size = sizeof call, .collective = KOLO_ALL_REDUCE, .in = floats(&one, 1), .out = floats(&sum, 1)};
  OK(kolo_start(group, &call, NULL));
  CHECK(sum == total);

  call.collective = KOLO_SCAN;
  OK(kolo_start(group, &call, NULL));
  CHECK(sum == (float)((rank + 1) * (rank + 2)) / 2);

  call.collective = KOLO_REDUCE;
  call.root = root;
  sum = -1;
  if (rank != root) call.out = floats(NULL, 0);
  OK(kolo_start(group, &call, NULL));
  CHECK(sum == (rank == root ? total : -1));

  call = (kolo_call){.size = sizeof call, .collective = KOLO_REDUCE_SCATTER, .in = floats(in, (uint64_t)ranks)};
  call.out = floats(&sum, 1);
  OK(kolo_start(group, &call, NULL));
  CHECK(sum == (float)(10 * ranks * (ranks - 1) / 2 + ranks * rank));

  call.collective = KOLO_ALL_GATHER;
  call.in = floats(&one, 1);
  call.out = floats(out, (uint64_t)ranks);
  OK(kolo_start(group, &call, NULL));
  for (int r = 0; r < ranks; ++r) CHECK(out[r] == (float)(r + 1));

  call.collective = KOLO_ALL_TO_ALL;
  call.in = floats(in, (uint64_t)ranks);
  OK(kolo_start(group, &call, NULL));
  for (int r = 0; r < ranks; ++r) CHECK(out[r] == (float)(10 * r + rank));

  /* With counts: only rank 0 has a part, of two elements. */
  uint64_t counts[kMostRanks] = {2};
  call = (kolo_call){.size = sizeof call, .collective = KOLO_GATHER, .in = floats(in, rank == 0 ? 2 : 0), .counts = counts};
  call.root = root;
  call.out = rank == root ? floats(out, 2) : floats(NULL, 0);
  OK(kolo_start(group, &call, NULL));
  CHECK(rank != root || (out[0] == 0 && out[1] == 1));
  call.collective = KOLO_SCATTER;
  call.in = call.out;
  call.out = floats(in, rank == 0 ? 2 : 0);
  OK(kolo_start(group, &call, NULL));
  CHECK(rank != 0 || (in[0] == 0 && in[1] == 1));

  call = (kolo_call){.size = sizeof call, .collective = KOLO_BROADCAST, .out = floats(&one, 1), .root = root};
  kolo_work* work = NULL;
  OK(kolo_start(group, &call, &work));
  OK(kolo_wait(work));
  CHECK(one == (float)ranks);
  call = (kolo_call){.size = sizeof call, .collective = KOLO_BARRIER};
  OK(kolo_start(group, &call, NULL));
}

static int larger(void* context, void* out, const void* left, const void* right, uint64_t count, kolo_dtype dtype) {
  if (dtype != KOLO_FLOAT32) return 1;
  const float *a = left, *b = right;
  for (uint64_t i = 0; i < count; ++i) ((float*)out)[i] = a[i] > b[i] ? a[i] : b[i];
  atomic_fetch_add((atomic_int*)context, 1);
  return 0;
}

static void reductions_of_the_caller(void) {
  float value = (float)rank, result = -1;
  kolo_call call = {.size = sizeof call, .op = KOLO_PREMULTIPLIED_SUM, .in = floats(&value, 1), .out = floats(&result, 1)};
  call.factor = rank == 1 ? 4 : 0;
  OK(kolo_start(group, &call, NULL));
  CHECK(result == 4);

  atomic_int combined = 0;
  int32_t sum = rank;
  call.op = KOLO_CUSTOM;
  call.combine = larger;
  call.context = &combined;
  call.name = "larger";
  for (call.is_commutative = 0; call.is_commutative < 2; ++call.is_commutative) {
    OK(kolo_start(group, &call, NULL));
    CHECK(result == (float)(ranks - 1));
  }
  OK(kolo_all_reduce(group, &sum, &sum, 1, KOLO_INT32, KOLO_SUM, NULL));
  int32_t most = combined;
  OK(kolo_all_reduce(group, &most, &most, 1, KOLO_INT32, KOLO_SUM, NULL));
  CHECK(most > 0);
}

static void options(void) {
  float values[4] = {1, 2, 3, 4};
  kolo_call call = {.size = sizeof call, .in = floats(values, 4), .out = floats(values, 4), .algorithm = "ring"};
  call.segment_bytes = 4096;
  call.wire = KOLO_WIRE_BFLOAT16;
  call.label = "gradients";
  call.label_number = 7;
  call.timeout_ns = 20LL * kSecond;
  kolo_work* work = NULL;
  OK(kolo_start(group, &call, &work));
  OK(kolo_wait_for(work, KOLO_FOREVER, &(int){0}));
  CHECK(strstr(kolo_algorithm(work), "ring") == kolo_algorithm(work));
  CHECK(kolo_duration(work) > 0 && kolo_source(work) == -1);
  OK(kolo_wait(work));
  CHECK(values[3] == 4 * (float)ranks);

  kolo_estimate estimate = {.size = sizeof estimate};
  OK(kolo_get_estimate(group, &call, 1 << 20, &estimate));
  CHECK(estimate.time > 0 && strstr(estimate.algorithm, "ring") == estimate.algorithm);
  call.collective = KOLO_SEND;
  REFUSED(kolo_get_estimate(group, &call, 1 << 20, &estimate), "send");

  OK(kolo_set_label(group, "step", 3));
  OK(kolo_barrier(group, NULL));
  OK(kolo_set_label(group, "", 0));
}

/* A structure of an earlier version ends sooner. */
static void earlier_versions(void) {
  float value = 1;
  struct {
    size_t size;
    int32_t collective, op;
    kolo_buffer in, out;
  } call = {.size = sizeof call, .in = floats(&value, 1), .out = floats(&value, 1)};
  OK(kolo_start(group, (const kolo_call*)&call, NULL));
  CHECK(value == (float)ranks);
  struct {
    size_t size;
    uint64_t bytes_sent, bytes_received;
  } counters[2] = {{.size = sizeof *counters}, {.bytes_received = 42}};
  OK(kolo_get_counters(group, (kolo_counters*)counters));
  CHECK(counters[1].size == 0 && counters[1].bytes_received == 42);
}

static void messages_by_kolo_start(void) {
  float number = (float)rank, got = -1;
  const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  kolo_call send = {.size = sizeof send, .collective = KOLO_SEND, .in = floats(&number, 1), .peer = next, .tag = 3};
  kolo_call recv = {.size = sizeof recv, .collective = KOLO_RECV, .out = floats(&got, 1), .tag = 3};
  recv.peer = KOLO_ANY_RANK;
  recv.timeout_ns = 20LL * kSecond;
  kolo_work* work = NULL;
  OK(kolo_start(group, &recv, &work));
  OK(kolo_start(group, &send, NULL));
  OK(kolo_wait_for(work, KOLO_FOREVER, &(int){0}));
  CHECK(kolo_source(work) == last && got == (float)last);
  OK(kolo_wait(work));

  OK(kolo_recv(group, &got, 1, KOLO_FLOAT32, KOLO_ANY_RANK, 4, &work));
  OK(kolo_send(group, &number, 1, KOLO_FLOAT32, next, 4, NULL));
  OK(kolo_wait(work));
  CHECK(got == (float)last);
  send.algorithm = "ring";
  REFUSED(kolo_start(group, &send, NULL), "sends and receives");
}

static void both_ways(void) {
  float number = (float)rank, got = -1;
  int32_t word = -1;
  const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  const kolo_buffer out = floats(&number, 1), in = floats(&got, 1);
  OK(kolo_sendrecv(group, &out, next, &in, last, 1, NULL));
  CHECK(got == (float)last);
  got = -1;
  kolo_work* both[2] = {NULL, NULL};
  OK(kolo_sendrecv(group, &out, next, &in, last, 1, both));
  OK(kolo_wait_all(both, 2, KOLO_FOREVER, NULL));
  CHECK(got == (float)last);
  REFUSED(kolo_sendrecv(group, &out, next, NULL, last, 1, NULL), "kolo_sendrecv: `in` is null");
  REFUSED(kolo_sendrecv(group, &out, next, &out, last, 1, both), "overlap");
  CHECK(both[0] == NULL && both[1] == NULL);

  kolo_message message = {.size = sizeof message};
  OK(kolo_probe(group, last, 9, 0, &message));
  CHECK(message.source == KOLO_ANY_RANK);
  OK(kolo_barrier(group, NULL));
  kolo_work* work = NULL;
  OK(kolo_send(group, &rank, 1, KOLO_INT32, next, 9, &work));
  OK(kolo_probe(group, KOLO_ANY_RANK, 9, KOLO_FOREVER, &message));
  CHECK(message.source == last && message.dtype == KOLO_INT32 && message.count == 1);
  OK(kolo_recv(group, &word, 1, KOLO_INT32, message.source, 9, NULL));
  OK(kolo_wait(work));
  CHECK(word == last);
}

/* Parts in buffers of their own, here in the reverse order of ranks. */
static void lists(void) {
  float in[kMostRanks], out[kMostRanks], one = (float)(rank + 1), sum = -1;
  kolo_buffer ins[kMostRanks], outs[kMostRanks];
  const int root = ranks - 1;
  for (int r = 0; r < ranks; ++r) {
    in[ranks - 1 - r] = (float)(10 * rank + r);
    ins[r] = floats(&in[ranks - 1 - r], 1);
    outs[r] = floats(&out[ranks - 1 - r], 1);
  }
  kolo_call call = {.size = sizeof call, .collective = KOLO_REDUCE_SCATTER, .in_list = ins, .out = floats(&sum, 1)};
  OK(kolo_start(group, &call, NULL));
  CHECK(sum == (float)(10 * ranks * (ranks - 1) / 2 + ranks * rank));
  call = (kolo_call){.size = sizeof call, .collective = KOLO_ALL_GATHER, .in = floats(&one, 1), .out_list = outs};
  OK(kolo_start(group, &call, NULL));
  for (int r = 0; r < ranks; ++r) CHECK(out[ranks - 1 - r] == (float)(r + 1));
  call = (kolo_call){.size = sizeof call, .collective = KOLO_ALL_TO_ALL, .in_list = ins, .out_list = outs};
  kolo_work* work = NULL;
  OK(kolo_start(group, &call, &work));
  OK(kolo_wait(work));
  for (int r = 0; r < ranks; ++r) CHECK(out[ranks - 1 - r] == (float)(10 * r + rank));
  call = (kolo_call){.size = sizeof call, .collective = KOLO_GATHER, .in = floats(&one, 1), .root = root};
  call.out_list = rank == root ? outs : NULL;
  OK(kolo_start(group, &call, NULL));
  for (int r = 0; rank == root && r < ranks; ++r) CHECK(out[ranks - 1 - r] == (float)(r + 1));
  call = (kolo_call){.size = sizeof call, .collective = KOLO_SCATTER, .out = floats(&sum, 1), .root = root};
  call.in_list = rank == root ? outs : NULL;
  OK(kolo_start(group, &call, NULL));
  CHECK(sum == one);
  call.collective = KOLO_ALL_REDUCE;
  call.in_list = ins;
  REFUSED(kolo_start(group, &call, NULL), "kolo_start: all_reduce does not take these lists of buffers");
}

static void batches(void) {
  enum { kCalls = 20 };
  float values[kCalls], got = -1, number = (float)rank;
  kolo_work* works[kCalls + 2];
  kolo_batch* batch = NULL;
  OK(kolo_batch_create(group, &batch));
  kolo_call call = {.size = sizeof call};
  for (int i = 0; i < kCalls; ++i) {
    values[i] = (float)i;
    call.in = call.out = floats(&values[i], 1);
    OK(kolo_batch_add(batch, &call));
  }
  call.collective = KOLO_SEND;
  call.in = floats(&number, 1);
  call.peer = (rank + 1) % ranks;
  OK(kolo_batch_add(batch, &call));
  call.collective = KOLO_RECV;
  call.out = floats(&got, 1);
  call.peer = (rank + ranks - 1) % ranks;
  OK(kolo_batch_add(batch, &call));
  CHECK(kolo_batch_size(batch) == kCalls + 2);
  OK(kolo_batch_start(batch, NULL));
  for (int i = 0; i < kCalls; ++i) CHECK(values[i] == (float)(i * ranks));
  CHECK(got == (float)call.peer);
  OK(kolo_batch_start(batch, works));
  OK(kolo_wait_all(works, kCalls + 2, KOLO_FOREVER, NULL));
  for (int i = 0; i < kCalls; ++i) CHECK(values[i] == (float)(i * ranks * ranks));
  OK(kolo_batch_clear(batch));
  CHECK(kolo_batch_size(batch) == 0);

  call.peer = KOLO_ANY_RANK;
  REFUSED(kolo_batch_add(batch, &call), "recv");
  call.collective = KOLO_BARRIER;
  REFUSED(kolo_batch_add(batch, &call), "kolo_batch_add: a batch takes no barrier");
  call.collective = KOLO_ALL_GATHER;
  call.out_list = &call.in;
  REFUSED(kolo_batch_add(batch, &call), "kolo_batch_add: a batch takes no lists of buffers");
  REFUSED(kolo_batch_add(batch, NULL), "kolo_batch_add: kolo_call is null");
  REFUSED(kolo_batch_start(NULL, NULL), "kolo_batch_start: the batch is null");
  OK(kolo_release(batch));
  CHECK(kolo_batch_size(batch) == 0);
}

void calls(void) {
  every_collective();
  reductions_of_the_caller();
  options();
  earlier_versions();
  messages_by_kolo_start();
  both_ways();
  lists();
  batches();
  OK(kolo_barrier(group, NULL));
}
