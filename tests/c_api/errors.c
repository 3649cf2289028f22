/* Wrong arguments: errors at once that name the call, after which the group is as it was. */
#include "program.h"

static int combine_that_fails(void* context, void* out, const void* left, const void* right, uint64_t count,
                              kolo_dtype dtype) {
  (void)context, (void)out, (void)left, (void)right, (void)count, (void)dtype;
  return 5;
}

static void null_handles(void) {
  float value = 0;
  kolo_call call = {.size = sizeof call};
  kolo_communicator* made = group;
  REFUSED(kolo_all_reduce(NULL, &value, &value, 1, KOLO_FLOAT32, KOLO_SUM, NULL),
          "kolo_all_reduce: the communicator is null");
  REFUSED(kolo_start(NULL, &call, NULL), "kolo_start: the communicator is null");
  REFUSED(kolo_start(group, NULL, NULL), "kolo_start: kolo_call is null");
  REFUSED(kolo_split(group, 0, 0, NULL), "kolo_split: the place of the new communicator is null");
  REFUSED(kolo_split(NULL, 0, 0, &made), "kolo_split: the communicator is null");
  CHECK(made == NULL);
  REFUSED(kolo_subgroup(group, NULL, 1, &made), "kolo_subgroup: the list of ranks is null");
  REFUSED(kolo_create(NULL), "kolo_create: the place of the new handle is null");
  REFUSED(kolo_create_in(NULL, 0, 1, NULL, &made), "kolo_create_in: the store is null");
  REFUSED(kolo_shrink(NULL, &made), "kolo_shrink: the communicator is null");
  REFUSED(kolo_abort(NULL, NULL), "kolo_abort: the communicator is null");
  REFUSED(kolo_set_timeout(NULL, 1), "kolo_set_timeout: the communicator is null");
  REFUSED(kolo_set_label(NULL, "", 0), "kolo_set_label: the communicator is null");
  REFUSED(kolo_get_counters(group, NULL), "kolo_get_counters: kolo_counters is null");
  REFUSED(kolo_probe(group, 0, 0, 0, NULL), "kolo_probe: kolo_message is null");
  REFUSED(kolo_store_set(NULL, "key", "", 0), "kolo_store_set: the store is null");
  REFUSED(kolo_sparse_create(NULL, NULL, &(kolo_sparse*){NULL}), "kolo_sparse_create: the communicator is null");
  REFUSED(kolo_timeline_pause(NULL, 1), "kolo_timeline_pause: the timeline is null");
  CHECK(kolo_rank(NULL) == -1 && kolo_size(NULL) == -1 && kolo_timeout(NULL) == -1 && kolo_wait(NULL) == KOLO_OK);
  CHECK(kolo_transport_to(NULL, 0) == NULL && kolo_is_same(NULL, group) == 0);
  CHECK(kolo_store_describe(NULL) == NULL && kolo_store_server_port(NULL) == -1);
  OK(kolo_destroy(NULL));
}

static void wrong_values(void) {
  float value = 0;
  REFUSED(kolo_all_reduce(group, NULL, NULL, 1, KOLO_FLOAT32, KOLO_SUM, NULL), "all_reduce");
  REFUSED(kolo_all_reduce(group, &value, &value, 1, (kolo_dtype)99, KOLO_SUM, NULL),
          "kolo_all_reduce: there is no kolo_dtype 99");
  REFUSED(kolo_all_reduce(group, &value, &value, 1, (kolo_dtype)256, KOLO_SUM, NULL), "no kolo_dtype 256");
  REFUSED(kolo_all_reduce(group, &value, &value, 1, KOLO_FLOAT32, (kolo_op)99, NULL),
          "kolo_all_reduce: there is no kolo_op 99");
  REFUSED(kolo_all_reduce(group, &value, &value, 1, KOLO_FLOAT32, KOLO_BIT_AND, NULL), "bit_and of float32");
  REFUSED(kolo_all_reduce(group, &value, &value, 1, KOLO_FLOAT32, KOLO_CUSTOM, NULL),
          "kolo_all_reduce: `combine` of KOLO_CUSTOM is null");
  REFUSED(kolo_all_reduce(group, &value, &value, 1, KOLO_FLOAT32, KOLO_PREMULTIPLIED_SUM, NULL),
          "kolo_all_reduce: only kolo_start() takes a factor");
  CHECK(kolo_error_rank() == rank);
  REFUSED(kolo_all_gather(group, &value, &value, UINT64_MAX / 2, NULL, KOLO_FLOAT32, NULL), "all_gather");
  REFUSED(kolo_scan(group, &value, &value, 1, KOLO_FLOAT32, KOLO_AVERAGE, NULL), "scan");
  REFUSED(kolo_broadcast(group, &value, 1, KOLO_FLOAT32, ranks, NULL), "broadcast");
  REFUSED(kolo_send(group, &value, 1, KOLO_FLOAT32, ranks, 0, NULL), "send");
  REFUSED(kolo_send(group, &value, 1, KOLO_FLOAT32, rank, -1, NULL), "send");
  REFUSED(kolo_recv(group, &value, 1, KOLO_FLOAT32, -2, 0, NULL), "recv");
  REFUSED(kolo_recv_any(group, NULL, 1, KOLO_FLOAT32, 0, NULL), "recv_any");
  REFUSED(kolo_probe(group, 0, 0, -1, &(kolo_message){.size = sizeof(kolo_message)}), "negative");
  REFUSED(kolo_set_timeout(group, 0), "set_timeout");
  REFUSED(kolo_set_timeout(group, -1), "set_timeout");

  const kolo_call good = {.size = sizeof good, .in = floats(&value, 1), .out = floats(&value, 1)};
  kolo_call call = good;
  call.collective = 12;
  REFUSED(kolo_start(group, &call, NULL), "kolo_start: there is no kolo_collective 12");
  call = good;
  call.size = 0;
  REFUSED(kolo_start(group, &call, NULL), "kolo_start: kolo_call has a size of 0: set it to its sizeof");
  call.size = sizeof call + 1; /* of a later version */
  REFUSED(kolo_start(group, &call, NULL), "kolo_start: kolo_call has a size of");
  call = good;
  call.in.device_kind = KOLO_CUDA;
  call.in.device = 1;
  REFUSED(kolo_start(group, &call, NULL), "all_reduce");
  CHECK(strstr(kolo_error_message(), "cuda") != NULL);
  call.in.device_kind = 9;
  REFUSED(kolo_start(group, &call, NULL), "no kolo_device_kind 9");
  call = good;
  call.out.device = 1 << 20;
  REFUSED(kolo_start(group, &call, NULL), "no device 1048576");
  call = good;
  call.wire = 99;
  REFUSED(kolo_start(group, &call, NULL), "no kolo_wire 99");
  call = good;
  call.timeout_ns = -5;
  REFUSED(kolo_start(group, &call, NULL), "kolo_start: the time is negative: -5 ns");
  call.collective = KOLO_RECV;
  REFUSED(kolo_start(group, &call, NULL), "kolo_start: the time is negative: -5 ns");
  call = good;
  call.algorithm = "magic";
  REFUSED(kolo_start(group, &call, NULL), "magic");
  CHECK(strncmp(kolo_error_message(), "rank ", 5) == 0 && kolo_error_rank() == rank);
  call = good;
  call.stream = &value;
  REFUSED(kolo_start(group, &call, NULL), "stream");
  const kolo_options late = {.size = sizeof late, .timeout_ns = -1};
  kolo_communicator* made = group;
  REFUSED(kolo_create_with(&late, &made), "kolo_create_with: the time is negative");
  CHECK(made == NULL);
}

static void names(void) {
  CHECK(strcmp(kolo_status_name(KOLO_PEER_LOST), "peer_lost") == 0 && kolo_status_name((kolo_status)99) == NULL);
  CHECK(strcmp(kolo_dtype_name(KOLO_BFLOAT16), "bfloat16") == 0 && kolo_dtype_name((kolo_dtype)-1) == NULL);
  CHECK(strcmp(kolo_op_name(KOLO_MAX), "max") == 0 && kolo_op_name((kolo_op)8) == NULL);
  CHECK(strcmp(kolo_op_name(KOLO_CUSTOM), "custom") == 0);
  CHECK(strcmp(kolo_op_name(KOLO_PREMULTIPLIED_SUM), "premultiplied_sum") == 0);
  CHECK(strcmp(kolo_wire_name(KOLO_WIRE_INT8), "int8") == 0 && kolo_wire_name((kolo_wire)5) == NULL);
  CHECK(strcmp(kolo_wire_name(KOLO_WIRE_DEFAULT), "default") == 0);
  CHECK(kolo_dtype_bytes(KOLO_COMPLEX128) == 16 && kolo_dtype_bytes((kolo_dtype)17) == 0);
  CHECK(strchr(kolo_version(), '.') != NULL);
}

/* A reduction of the caller's that fails ends its call, on all ranks, with what it returned or threw. */
static void reduction_that_fails(kolo_combine combine, const char* text) {
  kolo_communicator* part = NULL;
  OK(kolo_split(group, 0, rank, &part));
  float value = 1;
  kolo_call call = {.size = sizeof call, .op = KOLO_CUSTOM, .in = floats(&value, 1), .out = floats(&value, 1)};
  call.combine = combine;
  call.name = "that fails";
  REFUSED(kolo_start(part, &call, NULL), text);
  CHECK(strstr(kolo_error_message(), "all_reduce") != NULL);
  OK(kolo_destroy(part));
}

static kolo_communicator* again(void) {
  kolo_communicator* made = NULL;
  OK(kolo_create(&made));
  return made;
}

void errors(void) {
  null_handles();
  wrong_values();
  names();
  OK(kolo_barrier(group, NULL)); /* none of them has harmed the group */

  /* What ends a group, in groups of their own. */
  kolo_communicator* const first = group;
  group = again();
  reduction_that_fails(combine_that_fails, "returned 5");
  OK(kolo_destroy(group));
  group = again();
  reduction_that_fails(combine_that_throws, "from C++");
  OK(kolo_destroy(group));
  group = first;

  /* Ranks that disagree. */
  const int count = rank == 0 ? 1 : 2;
  float two[2] = {0, 0};
  CHECK(kolo_all_reduce(group, two, two, (uint64_t)count, KOLO_FLOAT32, KOLO_SUM, NULL) == KOLO_MISMATCH);
  CHECK(strstr(kolo_error_message(), "all_reduce") != NULL);
}
