/* One rank of a job that uses the C interface. Exit status 0: all that it checks holds.
   program collectives | errors | cancelled | lost */
#include <kolo/kolo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                            \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition, kolo_error_message()); \
      exit(1);                                                                                      \
    }                                                                                               \
  } while (0)
#define OK(call) CHECK((call) == KOLO_OK)

enum { kMostRanks = 16 };

static kolo_communicator* group;
static int rank, ranks;

/* Part r of what a rank has: element i of part r of rank s is 1000 s + 100 r + i. */
static int32_t element(int owner, int part, int i) {
  return 1000 * owner + 100 * part + i;
}

static void uneven_parts(void) {
  uint64_t counts[kMostRanks];
  int32_t all[kMostRanks * kMostRanks], own[kMostRanks], sums[kMostRanks];
  int total = 0;
  for (int r = 0; r < ranks; ++r) {
    counts[r] = (uint64_t)r; /* rank 0 has nothing */
    for (int i = 0; i < r; ++i) all[total++] = element(rank, r, i);
  }
  OK(kolo_reduce_scatter(group, all, sums, 0, counts, KOLO_INT32, KOLO_MAX, NULL));
  for (int i = 0; i < rank; ++i) CHECK(sums[i] == element(ranks - 1, rank, i));

  for (int i = 0; i < rank; ++i) own[i] = element(rank, rank, i);
  kolo_work* work = NULL;
  OK(kolo_all_gather(group, own, all, 0, counts, KOLO_INT32, &work));
  OK(kolo_wait(work));
  for (int r = 0, k = 0; r < ranks; ++r) {
    for (int i = 0; i < r; ++i) CHECK(all[k++] == element(r, r, i));
  }

  const int root = ranks - 1;
  memset(all, 0, sizeof all);
  OK(kolo_gather(group, own, rank == root ? all : NULL, 0, counts, KOLO_INT32, root, NULL));
  for (int r = 0, k = 0; rank == root && r < ranks; ++r) {
    for (int i = 0; i < r; ++i) CHECK(all[k++] == element(r, r, i));
  }
  memset(own, 0, sizeof own);
  OK(kolo_scatter(group, rank == root ? all : NULL, own, 0, counts, KOLO_INT32, root, NULL));
  for (int i = 0; i < rank; ++i) CHECK(own[i] == element(rank, rank, i));
}

static void prefixes(void) {
  int32_t sum = rank + 1;
  OK(kolo_scan(group, &sum, &sum, 1, KOLO_INT32, KOLO_SUM, NULL));
  CHECK(sum == (rank + 1) * (rank + 2) / 2);
}

static void equal_parts(void) {
  int32_t sent[2 * kMostRanks], received[2 * kMostRanks];
  for (int r = 0; r < ranks; ++r) {
    for (int i = 0; i < 2; ++i) sent[2 * r + i] = element(rank, r, i);
  }
  OK(kolo_all_to_all(group, sent, received, 2, NULL, NULL, KOLO_INT32, NULL));
  for (int r = 0; r < ranks; ++r) {
    for (int i = 0; i < 2; ++i) CHECK(received[2 * r + i] == element(r, rank, i));
  }
  OK(kolo_all_to_all(group, sent, sent, 2, NULL, NULL, KOLO_INT32, NULL));
  CHECK(memcmp(sent, received, 2 * sizeof(int32_t) * (size_t)ranks) == 0);
}

static void reductions(void) {
  double* values = kolo_allocate(1000 * sizeof(double));
  CHECK(values != NULL);
  for (int i = 0; i < 1000; ++i) CHECK(values[i] == 0);
  for (int i = 0; i < 1000; ++i) values[i] = rank + 1;
  kolo_work* work = NULL;
  OK(kolo_all_reduce(group, values, values, 1000, KOLO_FLOAT64, KOLO_AVERAGE, &work));
  int is_done = 0;
  while (!is_done) OK(kolo_test(work, &is_done));
  OK(kolo_wait(work));
  for (int i = 0; i < 1000; ++i) CHECK(values[i] == (ranks + 1) / 2.0);
  kolo_free(values);
  kolo_free(NULL);

  int64_t mine = rank + 1, product = -1, expected = 1;
  for (int r = 1; r <= ranks; ++r) expected *= r;
  OK(kolo_reduce(group, &mine, rank == 0 ? &product : NULL, 1, KOLO_INT64, KOLO_PRODUCT, 0, NULL));
  CHECK(product == (rank == 0 ? expected : -1));
  uint16_t word = (uint16_t)(rank == 1 ? 77 : 0);
  OK(kolo_broadcast(group, &word, 1, KOLO_UINT16, 1, NULL));
  CHECK(word == 77);
}

static void messages(void) {
  int32_t number = 10 + rank, from_left = 0;
  kolo_work* work = NULL;
  OK(kolo_recv(group, &from_left, 1, KOLO_INT32, (rank + ranks - 1) % ranks, 5, &work));
  OK(kolo_send(group, &number, 1, KOLO_INT32, (rank + 1) % ranks, 5, NULL));
  OK(kolo_wait(work));
  CHECK(from_left == 10 + (rank + ranks - 1) % ranks);
  if (rank > 0) OK(kolo_send(group, &number, 1, KOLO_INT32, 0, 6, NULL));
  for (int r = 1; rank == 0 && r < ranks; ++r) {
    int source = -1;
    OK(kolo_recv_any(group, &from_left, 1, KOLO_INT32, 6, &source));
    CHECK(from_left == 10 + source);
  }
}

static void parts_of_the_group(void) {
  kolo_communicator* part = NULL;
  OK(kolo_split(group, rank == 0 ? -1 : 0, -rank, &part));
  CHECK((part == NULL) == (rank == 0));
  if (part == NULL) return;
  CHECK(kolo_size(part) == ranks - 1 && kolo_rank(part) == ranks - 1 - rank);
  OK(kolo_barrier(part, NULL));
  kolo_destroy(part);
}

static void errors(void) {
  float value = 0;
  CHECK(kolo_all_reduce(NULL, &value, &value, 1, KOLO_FLOAT32, KOLO_SUM, NULL) == KOLO_INVALID_ARGUMENT);
  CHECK(strstr(kolo_error_message(), "communicator is null") != NULL);
  CHECK(kolo_all_reduce(group, NULL, NULL, 1, KOLO_FLOAT32, KOLO_SUM, NULL) == KOLO_INVALID_ARGUMENT);
  CHECK(kolo_all_reduce(group, &value, &value, 1, (kolo_dtype)99, KOLO_SUM, NULL) == KOLO_INVALID_ARGUMENT);
  CHECK(kolo_all_reduce(group, &value, &value, 1, KOLO_FLOAT32, (kolo_op)99, NULL) == KOLO_INVALID_ARGUMENT);
  CHECK(kolo_all_reduce(group, &value, &value, 1, KOLO_FLOAT32, KOLO_BIT_AND, NULL) == KOLO_INVALID_ARGUMENT);
  CHECK(strstr(kolo_error_message(), "bit_and of float32") != NULL);
  CHECK(kolo_broadcast(group, &value, 1, KOLO_FLOAT32, ranks, NULL) == KOLO_INVALID_ARGUMENT);
  CHECK(kolo_split(group, 0, 0, NULL) == KOLO_INVALID_ARGUMENT);
  CHECK(kolo_rank(NULL) == -1 && kolo_size(NULL) == -1 && kolo_wait(NULL) == KOLO_OK);
  OK(kolo_barrier(group, NULL)); /* none of them has harmed the group */
  /* Ranks that disagree. */
  const int count = rank == 0 ? 1 : 2;
  float two[2] = {0, 0};
  CHECK(kolo_all_reduce(group, two, two, (uint64_t)count, KOLO_FLOAT32, KOLO_SUM, NULL) == KOLO_MISMATCH);
  CHECK(strstr(kolo_error_message(), "all_reduce") != NULL);
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
  kolo_destroy(survivors);
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

int main(int argc, char** argv) {
  CHECK(argc == 2);
  OK(kolo_create(&group));
  rank = kolo_rank(group);
  ranks = kolo_size(group);
  CHECK(ranks > 1 && ranks <= kMostRanks);
  if (strcmp(argv[1], "collectives") == 0) {
    reductions();
    uneven_parts();
    prefixes();
    equal_parts();
    messages();
    parts_of_the_group();
    OK(kolo_barrier(group, NULL));
  } else if (strcmp(argv[1], "errors") == 0) {
    errors();
  } else if (strcmp(argv[1], "cancelled") == 0) {
    cancelled();
  } else {
    CHECK(strcmp(argv[1], "lost") == 0);
    lost();
  }
  kolo_destroy(group);
  return 0;
}
