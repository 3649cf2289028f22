// Functions for C that throw, as a C++ program's may.
#include <stdexcept>

extern "C" {
#include "program.h"

int combine_that_throws(void*, void*, const void*, const void*, uint64_t, kolo_dtype) {
  throw std::runtime_error("from C++");
}

void callback_that_throws(void* context, kolo_work*, kolo_status) {
  *static_cast<int*>(context) = 1;
  throw std::runtime_error("from C++");
}

int set_that_throws(void*, const char*, const void*, size_t) {
  throw std::runtime_error("from C++");
}
}
