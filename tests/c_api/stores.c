/* Stores, and communicators that meet in them; one store is of functions of this program. */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "program.h"

static void every_function_of(kolo_store* store) {
  char value[8] = "";
  size_t bytes = 0, missing = 99;
  int64_t sum = 0;
  const char* const keys[] = {"a", "b"};
  OK(kolo_store_set(store, "a", "x\0y", 3));
  OK(kolo_store_get(store, "a", KOLO_FOREVER, value, sizeof value, &bytes));
  CHECK(bytes == 3 && memcmp(value, "x\0y", 3) == 0);
  REFUSED(kolo_store_get(store, "a", 0, value, 2, &bytes), "kolo_store_get: the value has 3 bytes");
  CHECK(bytes == 3);
  CHECK(kolo_store_get(store, "b", 1000000, value, sizeof value, &bytes) == KOLO_TIMED_OUT);
  CHECK(strstr(kolo_error_message(), "b") != NULL);
  OK(kolo_store_wait(store, keys, 2, 1000000, &missing));
  CHECK(missing == 1);
  OK(kolo_store_add(store, "b", 40, NULL));
  OK(kolo_store_add(store, "b", 2, &sum));
  CHECK(sum == 42);
  OK(kolo_store_wait(store, keys, 2, KOLO_FOREVER, &missing));
  CHECK(missing == 0);
  OK(kolo_store_remove(store, "a"));
  OK(kolo_store_wait(store, keys, 2, 0, &missing));
  CHECK(missing == 1);
  CHECK(strlen(kolo_store_describe(store)) > 0);
}

/* Ranks that are threads of this process. */
enum { kThreads = 3 };
typedef struct member {
  kolo_store* store;
  int number;
} member;

static void* run_member(void* argument) {
  const member* self = argument;
  const kolo_options options = {.size = sizeof options, .timeout_ns = 30LL * kSecond, .skip_measuring = 1, .key = "the key of this test"};
  kolo_communicator* threads = NULL;
  OK(kolo_create_in(self->store, self->number, kThreads, &options, &threads));
  CHECK(kolo_rank(threads) == self->number && kolo_size(threads) == kThreads);
  CHECK(kolo_timeout(threads) == 30LL * kSecond);
  int32_t sum = self->number;
  OK(kolo_all_reduce(threads, &sum, &sum, 1, KOLO_INT32, KOLO_SUM, NULL));
  CHECK(sum == kThreads * (kThreads - 1) / 2);
  OK(kolo_destroy(threads));
  return NULL;
}

static void meet_in(kolo_store* store) {
  pthread_t threads[kThreads];
  member members[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    members[i] = (member){store, i};
    CHECK(pthread_create(&threads[i], NULL, run_member, &members[i]) == 0);
  }
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* A store of this program: a list of keys and values. */
enum { kMostKeys = 256, kLongest = 4096 };
static struct table {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct {
    char key[128];
    size_t bytes;
    char value[kLongest];
  } entries[kMostKeys];
  int size, released;
} table = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int find(const char* key) {
  for (int i = 0; i < table.size; ++i) {
    if (strcmp(table.entries[i].key, key) == 0) return i;
  }
  return -1;
}

static void put(const char* key, const void* value, size_t bytes) {
  int i = find(key);
  if (i < 0) i = table.size++;
  CHECK(i < kMostKeys && strlen(key) < sizeof table.entries[i].key && bytes <= kLongest);
  strcpy(table.entries[i].key, key);
  memcpy(table.entries[i].value, value, bytes);
  table.entries[i].bytes = bytes;
  pthread_cond_broadcast(&table.changed);
}

static int own_set(void* context, const char* key, const void* value, size_t bytes) {
  CHECK(context == &table);
  pthread_mutex_lock(&table.mutex);
  put(key, value, bytes);
  pthread_mutex_unlock(&table.mutex);
  return KOLO_OK;
}

static int own_get(void* context, const char* key, int64_t timeout_ns, void* value, size_t capacity, size_t* bytes) {
  struct timespec end;
  CHECK(context == &table && clock_gettime(CLOCK_REALTIME, &end) == 0 && timeout_ns >= 0);
  const int64_t seconds = timeout_ns / kSecond > 60 ? 60 : timeout_ns / kSecond;
  end.tv_sec += seconds + 1;
  if (timeout_ns < kSecond) --end.tv_sec;
  int at, is_late = 0;
  pthread_mutex_lock(&table.mutex);
  while ((at = find(key)) < 0 && !is_late) is_late = pthread_cond_timedwait(&table.changed, &table.mutex, &end) != 0;
  if (at >= 0) {
    CHECK(table.entries[at].bytes <= capacity);
    memcpy(value, table.entries[at].value, *bytes = table.entries[at].bytes);
  }
  pthread_mutex_unlock(&table.mutex);
  return at < 0 ? KOLO_TIMED_OUT : KOLO_OK;
}

static int own_add(void* context, const char* key, int64_t amount, int64_t* sum) {
  CHECK(context == &table);
  char text[32] = "";
  pthread_mutex_lock(&table.mutex);
  const int at = find(key);
  if (at >= 0) memcpy(text, table.entries[at].value, table.entries[at].bytes);
  *sum = strtoll(text, NULL, 10) + amount;
  const int bytes = snprintf(text, sizeof text, "%lld", (long long)*sum);
  put(key, text, (size_t)bytes);
  pthread_mutex_unlock(&table.mutex);
  return KOLO_OK;
}

static int own_remove(void* context, const char* key) {
  CHECK(context == &table);
  pthread_mutex_lock(&table.mutex);
  const int at = find(key);
  if (at >= 0) table.entries[at] = table.entries[--table.size];
  pthread_mutex_unlock(&table.mutex);
  return KOLO_OK;
}

static void own_release(void* context) {
  ++((struct table*)context)->released;
}

static int set_that_fails(void* context, const char* key, const void* value, size_t bytes) {
  (void)context, (void)key, (void)value, (void)bytes;
  return 77;
}

static void a_store_of_functions(void) {
  kolo_store_functions functions = {.size = sizeof functions, .context = &table, .set = own_set, .get = own_get};
  kolo_store *store = NULL, *view = NULL;
  REFUSED(kolo_own_store(&functions, &store), "kolo_own_store: `add` is null");
  functions.add = own_add;
  functions.remove = own_remove;
  functions.release = own_release;
  functions.name = "a table of this program";
  OK(kolo_own_store(&functions, &store));
  every_function_of(store);
  CHECK(strcmp(kolo_store_describe(store), functions.name) == 0);
  OK(kolo_prefix_store("threads/", store, &view));
  OK(kolo_release(store));
  CHECK(table.released == 0); /* the view needs it */
  meet_in(view);
  OK(kolo_release(view));
  CHECK(table.released == 1);

  /* Its failures are errors that name it, the function and the key. */
  functions.set = set_that_fails;
  OK(kolo_own_store(&functions, &store));
  CHECK(kolo_store_set(store, "key", "", 0) == KOLO_RENDEZVOUS_FAILED);
  CHECK(strstr(kolo_error_message(), "a table of this program: its function `set` returned 77 for the key key"));
  kolo_communicator* none = group;
  CHECK(kolo_create_in(store, 0, 2, NULL, &none) == KOLO_RENDEZVOUS_FAILED && none == NULL);
  CHECK(strstr(kolo_error_message(), "returned 77") != NULL);
  OK(kolo_release(store));
  functions.set = set_that_throws;
  OK(kolo_own_store(&functions, &store));
  CHECK(kolo_store_set(store, "key", "", 0) == KOLO_SYSTEM_ERROR);
  CHECK(strcmp(kolo_error_message(), "kolo_store_set: from C++") == 0);
  OK(kolo_release(store));
}

static void stores_of_kolo(void) {
  kolo_store *store = NULL, *view = NULL;
  OK(kolo_memory_store(&store));
  every_function_of(store);
  OK(kolo_release(store));
  OK(kolo_memory_store(&store));
  meet_in(store);
  OK(kolo_release(store));

  char path[] = "/tmp/kolo-c-api-XXXXXX";
  CHECK(mkdtemp(path) != NULL);
  char file[64];
  snprintf(file, sizeof file, "%s/store", path);
  OK(kolo_file_store(file, &store));
  every_function_of(store);
  OK(kolo_release(store));
  CHECK(unlink(file) == 0 && rmdir(path) == 0);
  REFUSED(kolo_file_store(NULL, &store), "kolo_file_store: the path is null");

  kolo_store_server* server = NULL;
  OK(kolo_serve_tcp_store("127.0.0.1", 0, "secret", &server));
  const int port = kolo_store_server_port(server);
  CHECK(port > 0);
  OK(kolo_tcp_store("127.0.0.1", (uint16_t)port, "secret", 10LL * kSecond, &store));
  every_function_of(store);
  OK(kolo_prefix_store("p/", store, &view));
  every_function_of(view);
  OK(kolo_release(view));
  OK(kolo_release(store));
  OK(kolo_release(server));
  CHECK(kolo_store_server_port(server) == -1);
  REFUSED(kolo_serve_tcp_store(NULL, 0, NULL, &server), "key");
}

/* Another communicator of the same job. */
static void the_job_again(void) {
  kolo_launch launch = {.size = sizeof launch};
  OK(kolo_launch_from_environment(&launch));
  CHECK(launch.rank == rank && launch.ranks == ranks && launch.local_rank == rank && launch.local_size == ranks);
  CHECK(strlen(launch.launcher) > 0);
  int outlives = -1;
  OK(kolo_store_outlives_ranks(&outlives));
  CHECK(outlives == 1); /* kolo run holds it */
  kolo_store *store = NULL, *view = NULL;
  kolo_communicator* again = NULL;
  OK(kolo_environment_store(30LL * kSecond, NULL, &store));
  OK(kolo_prefix_store("again/", store, &view));
  const kolo_options keyed = {.size = sizeof keyed, .key = "a key of this job alone"};
  OK(kolo_create_in(view, rank, ranks, &keyed, &again));
  OK(kolo_release(view));
  OK(kolo_release(store));
  OK(kolo_barrier(again, NULL));
  CHECK(kolo_is_same(again, group) == 0);
  OK(kolo_destroy(again));

  kolo_timeline* timeline = NULL;
  OK(kolo_timeline_create(0, &timeline));
  const kolo_options options = {.size = sizeof options, .transports = getenv("KOLO_TRANSPORTS"), .timeline = timeline};
  OK(kolo_create_with(&options, &again));
  OK(kolo_barrier(again, NULL));
  OK(kolo_destroy(again));
  CHECK(kolo_timeline_size(timeline) > 0);
  OK(kolo_release(timeline));
}

void stores(void) {
  stores_of_kolo();
  a_store_of_functions();
  the_job_again();
  OK(kolo_barrier(group, NULL));
}
