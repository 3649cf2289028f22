/* Each rank has a vector; all ranks get the sum. */
#include <kolo/kolo.h>
#include <stdio.h>

static int fail(void) {
  fprintf(stderr, "%s\n", kolo_error_message()); /* names the rank to blame, and the call */
  return 1;
}

int main(void) {
  kolo_communicator* communicator;
  if (kolo_create(&communicator) != KOLO_OK)
    return fail(); /* finds the other ranks through the environment */
  const int rank = kolo_rank(communicator), ranks = kolo_size(communicator);

  float values[1001];
  for (int i = 0; i < 1001; ++i) values[i] = (float)(rank + 1);
  if (kolo_all_reduce(communicator, values, values, 1001, KOLO_FLOAT32, KOLO_SUM, NULL) != KOLO_OK)
    return fail();

  for (int i = 0; i < 1001; ++i) {
    if (values[i] == (float)(ranks * (ranks + 1) / 2)) continue;
    fprintf(stderr, "got %g at %d\n", values[i], i);
    return 1;
  }
  if (rank == 0) printf("kolo %s: %d ranks have the sum\n", kolo_version(), ranks);
  kolo_destroy(communicator);
  return 0;
}
