/* Calls that were started: waiting, callbacks, handles. */
#include <pthread.h>

#include "program.h"

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int called, source;
  kolo_status status;
  kolo_work* seen;
  char message[256];
} outcome = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void note(void* context, kolo_work* work, kolo_status status) {
  CHECK(context == &outcome && kolo_is_done(work) == 1);
  pthread_mutex_lock(&outcome.mutex);
  ++outcome.called;
  outcome.status = status;
  outcome.source = kolo_source(work);
  CHECK(outcome.seen == NULL || kolo_is_done(outcome.seen) == -1); /* that of the callback before is freed */
  outcome.seen = work;
  snprintf(outcome.message, sizeof outcome.message, "%s", kolo_error_message());
  pthread_cond_signal(&outcome.changed);
  pthread_mutex_unlock(&outcome.mutex);
}

static void wait_for_callback(void) {
  pthread_mutex_lock(&outcome.mutex);
  while (outcome.called == 0) pthread_cond_wait(&outcome.changed, &outcome.mutex);
  outcome.called = 0;
  pthread_mutex_unlock(&outcome.mutex);
}

/* Receives a message that rank 0 sends to itself. */
static kolo_work* started_recv(int32_t* word, int tag) {
  kolo_work* work = NULL;
  OK(kolo_recv(group, word, 1, KOLO_INT32, rank, tag, &work));
  return work;
}

static void send_to_self(int tag) {
  OK(kolo_send(group, &rank, 1, KOLO_INT32, rank, tag, NULL));
}

static void waits(void) {
  int32_t words[2] = {-1, -1};
  int is_done = -1;
  size_t index = 99;
  kolo_work* both[2] = {started_recv(&words[0], 1), started_recv(&words[1], 2)};
  OK(kolo_wait_for(both[0], 1000, &is_done));
  CHECK(is_done == 0 && kolo_is_done(both[0]) == 0 && kolo_duration(both[0]) == 0);
  OK(kolo_wait_any(both, 2, 0, &index));
  CHECK(index == 2);
  int awaited = -1;
  CHECK(kolo_waiting_for(both[0], &awaited, 1) == 1 && awaited == rank);
  CHECK(kolo_waiting_for(both[0], NULL, 0) == 1 && kolo_waiting_for(NULL, NULL, 0) == 0);
  OK(kolo_wait_all(both, 2, 1000, &is_done));
  CHECK(is_done == 0);
  OK(kolo_test(both[1], &is_done));
  CHECK(is_done == 0);
  send_to_self(2);
  OK(kolo_wait_any(both, 2, KOLO_FOREVER, &index));
  CHECK(index == 1 && words[1] == rank && kolo_source(both[1]) == rank);
  send_to_self(1);
  OK(kolo_order(both[0], NULL));
  CHECK(words[0] == rank);
  OK(kolo_wait_all(both, 2, KOLO_FOREVER, &is_done));
  CHECK(is_done == 1);
  REFUSED(kolo_wait(both[0]), "kolo_wait: the handle is of no work: that was freed, or never made");
  CHECK(kolo_is_done(both[1]) == -1);
}

static void callbacks(void) {
  int32_t word = -1;
  kolo_work* work = started_recv(&word, 3);
  OK(kolo_then(work, note, &outcome));
  OK(kolo_release(work)); /* the call goes on */
  send_to_self(3);
  wait_for_callback();
  CHECK(word == rank && outcome.status == KOLO_OK && outcome.source == rank);
  OK(kolo_barrier(group, NULL));

  /* One that throws harms nothing, and the next one runs. */
  int has_thrown = 0;
  OK(kolo_barrier(group, &work));
  OK(kolo_then(work, callback_that_throws, &has_thrown));
  OK(kolo_then(work, note, &outcome));
  OK(kolo_wait(work));
  wait_for_callback();
  CHECK(has_thrown == 1);
  outcome.seen = NULL;
  OK(kolo_then(NULL, note, &outcome));
  wait_for_callback();
  REFUSED(kolo_then(NULL, NULL, NULL), "kolo_then: the callback is null");
}

/* Handles are not addresses: what is none is told. */
static void handles(void) {
  kolo_work* work = NULL;
  OK(kolo_barrier(group, &work));
  REFUSED(kolo_barrier((kolo_communicator*)work, NULL), "kolo_barrier: the handle is of a work, and not of a communicator");
  REFUSED(kolo_wait((kolo_work*)group), "and not of a work");
  OK(kolo_wait(work));
  REFUSED(kolo_wait(work), "freed");
  REFUSED(kolo_test(work, &(int){0}), "freed");
  REFUSED(kolo_then(work, note, &outcome), "freed");
  REFUSED(kolo_release(work), "freed");
  REFUSED(kolo_wait((kolo_work*)&work), "never made");
  CHECK(kolo_duration(work) == -1 && kolo_algorithm(work) == NULL && kolo_source(work) == -1);
  /* Its slot's next handle is another. */
  kolo_work* next = NULL;
  OK(kolo_barrier(group, &next));
  CHECK(next != work);
  REFUSED(kolo_wait(work), "freed");
  OK(kolo_wait(next));
  OK(kolo_wait(NULL));
  OK(kolo_release(NULL));
  CHECK(kolo_is_done(NULL) == 1);
  REFUSED(kolo_wait_all(&work, 1, KOLO_FOREVER, NULL), "freed");
  REFUSED(kolo_wait_all(NULL, 1, KOLO_FOREVER, NULL), "list of works is null");
  REFUSED(kolo_wait_any(NULL, 0, KOLO_FOREVER, &(size_t){0}), "wait_any");
  REFUSED(kolo_wait_for(NULL, -1, &(int){0}), "kolo_wait_for: the time is negative");
}

/* The callback of a call that fails gets its error. */
static void failures(void) {
  int32_t word = -1;
  kolo_store* store = NULL;
  OK(kolo_memory_store(&store));
  OK(kolo_create_in(store, 0, 1, NULL, &group)); /* of this rank alone */
  OK(kolo_release(store));
  rank = 0;
  outcome.seen = NULL;
  kolo_work* work = started_recv(&word, 4);
  OK(kolo_then(work, note, &outcome));
  OK(kolo_abort(group, "enough of it"));
  wait_for_callback();
  CHECK(outcome.status == KOLO_ABORTED && strstr(outcome.message, "enough of it") != NULL);
  int is_done = 0;
  CHECK(kolo_wait_for(work, KOLO_FOREVER, &is_done) == KOLO_ABORTED && is_done == 1);
  is_done = 0;
  OK(kolo_test(work, &is_done));
  CHECK(is_done == 1);
  is_done = 0;
  CHECK(kolo_wait_all(&work, 1, KOLO_FOREVER, &is_done) == KOLO_ABORTED && is_done == 1);
  REFUSED(kolo_wait(work), "freed");
  OK(kolo_destroy(group));
}

void works(void) {
  waits();
  callbacks();
  handles();
  kolo_communicator* const first = group;
  failures();
  group = first;
  OK(kolo_barrier(group, NULL));
}
