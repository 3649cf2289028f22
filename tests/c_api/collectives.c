/* The short forms, and groups. */
#include "program.h"

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
  CHECK(kolo_is_shared(values, 1000 * sizeof(double)) == 1 && kolo_is_shared(&is_done, 1) == 0);
  OK(kolo_free(values));
  REFUSED(kolo_free(values), "kolo_free: the memory is not of kolo_allocate()");
  OK(kolo_free(NULL));

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
  OK(kolo_destroy(part));
}

static void a_listed_group(void) {
  const int listed[] = {ranks - 1, 0};
  kolo_communicator* part = NULL;
  OK(kolo_subgroup(group, listed, 2, &part));
  CHECK((part != NULL) == (rank == 0 || rank == ranks - 1));
  CHECK(kolo_is_same(group, group) == 1 && kolo_is_same(group, part) == 0);
  if (part == NULL) return;
  CHECK(kolo_rank(part) == (rank == 0));
  OK(kolo_release(part));
  REFUSED(kolo_release(part), "kolo_release: the handle was freed");
  OK(kolo_create_group(group, listed, 2, &part)); /* the other ranks do not call it */
  CHECK(kolo_size(part) == 2 && kolo_rank(part) == (rank == 0));
  OK(kolo_barrier(part, NULL));
  OK(kolo_destroy(part));
}

static void what_a_group_tells(void) {
  const char* transport = kolo_transport_to(group, (rank + 1) % ranks);
  const char* wanted = getenv("KOLO_TRANSPORTS");
  CHECK(transport != NULL && wanted != NULL && strcmp(transport, wanted) == 0);
  CHECK(kolo_transport_to(group, ranks) == NULL);
  const char* const network = kolo_network(group);
  CHECK(network != NULL && (network[0] != '\0') == (strcmp(wanted, "tcp") == 0));
  kolo_counters before = {.size = sizeof before}, after = before;
  OK(kolo_get_counters(group, &before));
  OK(kolo_barrier(group, NULL));
  OK(kolo_get_counters(group, &after));
  CHECK(after.operations == before.operations + 1 && after.size == sizeof after);
  const int64_t usual = kolo_timeout(group);
  OK(kolo_set_timeout(group, 7LL * kSecond));
  CHECK(kolo_timeout(group) == 7LL * kSecond);
  OK(kolo_set_timeout(group, usual));
}

void collectives(void) {
  reductions();
  uneven_parts();
  prefixes();
  equal_parts();
  messages();
  parts_of_the_group();
  a_listed_group();
  what_a_group_tells();
}
