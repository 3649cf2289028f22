/* Sparse sums and timelines. */
#include <unistd.h>

#include "program.h"

void sparse_sums(void) {
  kolo_sparse* sparse = NULL;
  OK(kolo_sparse_create(group, NULL, &sparse));
  const int* degrees = NULL;
  size_t layers = 0;
  OK(kolo_sparse_degrees(sparse, &degrees, &layers));
  int product = 1;
  for (size_t i = 0; i < layers; ++i) product *= degrees[i];
  CHECK(product == ranks);

  /* Each rank has row 7 and one of its own, of two elements. */
  const uint64_t indices[] = {7, 100 + (uint64_t)rank};
  const float values[] = {1, 2, (float)rank, -1};
  kolo_sparse_vector mine = {.size = sizeof mine, .length = 1000, .width = 2, .count = 2, .indices = indices};
  mine.values = values;
  mine.dtype = KOLO_FLOAT32;
  kolo_sparse_vector sum = {.size = sizeof sum};
  OK(kolo_sparse_sum(sparse, &mine, &sum));
  CHECK(sum.length == 1000 && sum.width == 2 && sum.count == (uint64_t)ranks + 1 && sum.dtype == KOLO_FLOAT32);
  const float* sums = sum.values;
  CHECK(sum.indices[0] == 7 && sums[0] == (float)ranks && sums[1] == 2 * (float)ranks);
  for (int r = 0; r < ranks; ++r) {
    CHECK(sum.indices[r + 1] == 100 + (uint64_t)r && sums[2 * r + 2] == (float)r && sums[2 * r + 3] == -1);
  }
  OK(kolo_release(sum.memory));
  REFUSED(kolo_release(sum.memory), "freed");

  mine.width = 0;
  REFUSED(kolo_sparse_sum(sparse, &mine, &sum), "");
  mine.width = 2;
  mine.dtype = 99;
  REFUSED(kolo_sparse_sum(sparse, &mine, &sum), "kolo_sparse_sum: there is no kolo_dtype 99");
  mine.dtype = KOLO_FLOAT32;
  mine.values = NULL;
  REFUSED(kolo_sparse_sum(sparse, &mine, &sum), "");
  mine.indices = NULL;
  REFUSED(kolo_sparse_sum(sparse, &mine, &sum), "kolo_sparse_sum: `indices` is null");
  mine.width = UINT64_MAX;
  mine.indices = indices;
  REFUSED(kolo_sparse_sum(sparse, &mine, &sum), "too large");
  OK(kolo_release(sparse));

  const int all_at_once = ranks, wrong = ranks + 1;
  const double always = 0;
  kolo_sparse_options options = {.size = sizeof options, .degrees = &wrong, .layers = 1, .dense_share = &always};
  REFUSED(kolo_sparse_create(group, &options, &sparse), "");
  options.degrees = &all_at_once;
  options.dense_algorithm = "ring";
  OK(kolo_sparse_create(group, &options, &sparse));
  mine = (kolo_sparse_vector){.size = sizeof mine, .length = 10, .width = 1, .dtype = KOLO_INT64};
  OK(kolo_sparse_sum(sparse, &mine, &sum));
  CHECK(sum.count == 0);
  OK(kolo_release(sum.memory));
  OK(kolo_release(sparse));
  OK(kolo_barrier(group, NULL));
}

void timelines(void) {
  kolo_timeline* timeline = NULL;
  OK(kolo_timeline_create(2, &timeline));
  CHECK(kolo_timeline_first_begin(timeline) == INT64_MAX);
  OK(kolo_timeline_pause(timeline, 1));
  OK(kolo_timeline_span(timeline, "paused", "compute", 1, 2, NULL));
  CHECK(kolo_timeline_size(timeline) == 0);
  OK(kolo_timeline_pause(timeline, 0));
  OK(kolo_timeline_span(timeline, "step", "compute", 1000, 2000, "\"bytes\":8"));
  OK(kolo_timeline_span(timeline, "step", "compute", 3000, 4000, NULL));
  OK(kolo_timeline_span(timeline, "step", "compute", 5000, 6000, NULL));
  CHECK(kolo_timeline_size(timeline) == 2 && kolo_timeline_dropped(timeline) == 1);
  CHECK(kolo_timeline_first_begin(timeline) == 1000 && kolo_timeline_wall_clock(timeline) > 0);
  const char* events = kolo_timeline_chrome_events(timeline, rank, "host", 0);
  CHECK(events != NULL && strstr(events, "\"bytes\":8") != NULL);
  REFUSED(kolo_timeline_span(timeline, "step", "compute", -1, 0, NULL), "negative");

  char path[] = "/tmp/kolo-c-api-XXXXXX";
  CHECK(mkdtemp(path) != NULL);
  char file[64];
  snprintf(file, sizeof file, "%s/trace.json", path);
  OK(kolo_timeline_write(timeline, file, rank, "host", "group"));
  CHECK(unlink(file) == 0);
  OK(kolo_write_timeline(group, timeline, file));
  CHECK((unlink(file) == 0) == (rank == 0));
  CHECK(rmdir(path) == 0);
  CHECK(kolo_timeline_write(timeline, "/there/is/no/such/place", rank, NULL, NULL) == KOLO_SYSTEM_ERROR);
  REFUSED(kolo_timeline_write(timeline, NULL, rank, NULL, NULL), "kolo_timeline_write: the path is null");
  OK(kolo_release(timeline));
  CHECK(kolo_timeline_size(timeline) == 0 && kolo_timeline_dropped(timeline) == 0);
  CHECK(kolo_timeline_first_begin(timeline) == -1 && kolo_timeline_chrome_events(timeline, 0, NULL, 0) == NULL);
  OK(kolo_barrier(group, NULL));
}
