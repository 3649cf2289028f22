/* What the parts of the program share. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <kolo/kolo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                              \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, kolo_error_message()); \
      exit(1);                                                                                        \
    }                                                                                                 \
  } while (0)
#define OK(call) CHECK((call) == KOLO_OK)
/* The call is refused, and the text of the error has this. */
#define REFUSED(call, text)                                  \
  do {                                                       \
    CHECK((call) == KOLO_INVALID_ARGUMENT);                  \
    CHECK(strstr(kolo_error_message(), text) != NULL);       \
  } while (0)

enum { kMostRanks = 16, kSecond = 1000000000 };

extern kolo_communicator* group;
extern int rank, ranks;

void collectives(void);
void calls(void);
void works(void);
void stores(void);
void sparse_sums(void);
void timelines(void);
void errors(void);

/* In C++. */
int combine_that_throws(void* context, void* out, const void* left, const void* right, uint64_t count,
                        kolo_dtype dtype);
void callback_that_throws(void* context, kolo_work* work, kolo_status status);
int set_that_throws(void* context, const char* key, const void* value, size_t bytes);

kolo_buffer floats(float* data, uint64_t count);

#endif
