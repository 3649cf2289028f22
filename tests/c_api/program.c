/* One rank of a job that uses the C interface. Exit status 0: all that it checks holds.
   program collectives | calls | works | stores | sparse | timelines | errors | cancelled | lost | leaves */
#include <pthread.h>

#include "program.h"

kolo_communicator* group;
int rank, ranks;

kolo_buffer floats(float* data, uint64_t count) {
  return (kolo_buffer){.data = data, .count = count, .dtype = KOLO_FLOAT32};
}

static void lost(void) {
  if (rank == 1) _Exit(0);
  float value = 1;
  kolo_work* work = NULL;
  kolo_status status = kolo_all_reduce(group, &value, &value, 1, KOLO_FLOAT32, KOLO_SUM, &work);
  if (status == KOLO_OK) status = kolo_wait(work);
  CHECK(status == KOLO_PEER_LOST);
  CHECK(kolo_error_rank() == 1);
  kolo_communicator* survivors = NULL;
  OK(kolo_shrink(group, &survivors));
  CHECK(kolo_size(survivors) == ranks - 1);
  value = 1;
  OK(kolo_all_reduce(survivors, &value, &value, 1, KOLO_FLOAT32, KOLO_SUM, NULL));
  CHECK(value == (float)(ranks - 1));
  OK(kolo_barrier(survivors, NULL));
  CHECK(kolo_abort(survivors, "enough") == KOLO_OK);
  CHECK(kolo_barrier(survivors, NULL) == KOLO_ABORTED);
  CHECK(strstr(kolo_error_message(), "enough") != NULL);
  kolo_communicator* same = NULL;
  const kolo_regroup_options limits = {.size = sizeof limits, .least = 1, .most = ranks};
  OK(kolo_regroup(survivors, NULL, &limits, &same));
  CHECK(kolo_size(same) == ranks - 1 && !kolo_has_newcomers(same));
  const kolo_regroup_options more = {.size = sizeof more, .least = ranks};
  kolo_destroy(survivors);
  CHECK(kolo_regroup(same, NULL, &more, &survivors) == KOLO_NO_QUORUM);
  kolo_destroy(same);
  kolo_store* store = NULL;
  OK(kolo_memory_store(&store));
  const kolo_options hasty = {.size = sizeof hasty, .timeout_ns = 1000000, .program = "this", .process = "one"};
  CHECK(kolo_join(store, &hasty, &same) == KOLO_RENDEZVOUS_FAILED);
  const char* const nowhere = "tcp://127.0.0.1:1";
  CHECK(kolo_join_one_of(&nowhere, 1, &hasty, &same) == KOLO_RENDEZVOUS_FAILED);
  kolo_release(store);
}

static void* wait_for_all(void* status) {
  *(kolo_status*)status = kolo_barrier(group, NULL);
  pthread_testcancel();
  return status;
}

/* A thread that is cancelled inside a call first returns from it. */
static void cancelled(void) {
  int32_t word = 0;
  if (rank == 1) {
    pthread_t thread;
    kolo_status status = KOLO_TIMED_OUT;
    void* result = NULL;
    CHECK(pthread_create(&thread, NULL, wait_for_all, &status) == 0);
    CHECK(pthread_cancel(thread) == 0);
    for (int r = 0; r < ranks; ++r) {
      if (r != rank) OK(kolo_send(group, &word, 1, KOLO_INT32, r, 0, NULL));
    }
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && status == KOLO_OK);
  } else {
    OK(kolo_recv(group, &word, 1, KOLO_INT32, 1, 0, NULL)); /* rank 1 has cancelled */
    OK(kolo_barrier(group, NULL));
  }
  OK(kolo_barrier(group, NULL));
}

/* A program may end while it has communicators. The barrier of a slower rank may fail then. */
static void leaves(void) {
  (void)kolo_barrier(group, NULL);
  exit(0);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } parts[] = {{"collectives", collectives}, {"calls", calls},         {"works", works},
               {"stores", stores},           {"sparse", sparse_sums},  {"timelines", timelines},
               {"errors", errors},           {"cancelled", cancelled}, {"lost", lost},
               {"leaves", leaves}};
  CHECK(argc == 2);
  OK(kolo_create(&group));
  rank = kolo_rank(group);
  ranks = kolo_size(group);
  CHECK(ranks > 1 && ranks <= kMostRanks);
  int has_run = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    if (strcmp(argv[1], parts[i].name) != 0) continue;
    parts[i].run();
    has_run = 1;
  }
  CHECK(has_run);
  OK(kolo_destroy(group));
  return 0;
}
