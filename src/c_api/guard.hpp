// What all functions of the C interface do with errors and arguments: no exception leaves a function.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "c_api/handles.hpp"

namespace kolo::c_api {

/// The status of the exception that is being handled, of `function`; kolo_error_message() tells its text.
/// `group`: the handle of a communicator or batch whose rank the text names; else any.
kolo_status note_current(const char* function, const void* group) noexcept;

/// While it lives, pthread_cancel() waits: it would unwind the thread's stack out of locks that other threads
/// need, and ends the process where a function may not throw.
class NotCancelled {
 public:
  NotCancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() { pthread_setcancelstate(before_, nullptr); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_ = 0;
};

template <typename Call>
kolo_status guarded(const char* function, const void* group, Call call) noexcept {
  const NotCancelled not_cancelled;
  try {
    call();
    return KOLO_OK;
  } catch (...) {
    return note_current(function, group);
  }
}
template <typename Call>
kolo_status guarded(const char* function, Call call) noexcept {
  return guarded(function, nullptr, call);
}

/// The call's result; `otherwise` after an error.
template <typename Value, typename Call>
Value value_of(const char* function, Value otherwise, Call call) noexcept {
  guarded(function, [&] { otherwise = static_cast<Value>(call()); });
  return otherwise;
}

/// Keeps a text for this thread until the next.
const char* keep(std::string text);

/// As value_of(), of a text.
template <typename Call>
const char* text_of(const char* function, Call call) noexcept {
  return value_of<const char*>(function, nullptr, [&] { return keep(std::string(call())); });
}

template <typename T>
T& given(T* pointer, const char* name) {
  if (pointer == nullptr) throw Misuse(std::string(name) + " is null");
  return *pointer;
}

template <typename T>
std::span<T> list_of(T* first, std::size_t count, const char* name) {
  if (count > 0) given(first, name);
  return {first, count};
}

/// A text that may be null: then it is empty.
inline std::string_view text_or_empty(const char* text) {
  return text == nullptr ? std::string_view() : text;
}

inline std::chrono::nanoseconds time_of(std::int64_t ns) {
  if (ns < 0) throw Misuse("the time is negative: " + std::to_string(ns) + " ns");
  return std::chrono::nanoseconds(ns);
}

/// A structure of this or an earlier version of kolo, as this version has it: members that are missing are 0.
template <typename T>
T read(const T* structure, const char* name) {
  const std::size_t size = given(structure, name).size;
  if (size < sizeof size || size > sizeof(T)) {
    throw Misuse(std::string(name) + " has a size of " + std::to_string(size) +
                 ": set it to its sizeof, which is " + std::to_string(sizeof(T)) + " in this version");
  }
  T copy = {};
  std::memcpy(&copy, structure, size);
  return copy;
}

/// Writes a structure that read() has found right.
template <typename T>
void write(T* structure, T value) {
  value.size = structure->size;
  std::memcpy(structure, &value, value.size);
}

/// Makes an object and gives its handle to the program; null if `make` returns an object that is not valid.
template <typename Handle, typename Make>
kolo_status make_handle(const char* function, Handle** place, Make make) noexcept {
  return guarded(function, [&] {
    given(place, "the place of the new handle") = nullptr;
    *place = issue<Handle>(make()).release();
  });
}

[[noreturn]] void refuse_value(const char* name, int value);

/// Of a value of an enumeration that has `count` of them, from 0.
template <typename Enumeration>
Enumeration value_in(int value, int count, const char* name) {
  if (value < 0 || value >= count) [[unlikely]]
    refuse_value(name, value);
  return static_cast<Enumeration>(value);
}

inline DType type_of(int dtype) {
  return value_in<DType>(dtype, kDTypeCount, "kolo_dtype");
}

/// Not of KOLO_WIRE_DEFAULT.
inline Wire wire_of(int wire) {
  return static_cast<Wire>(value_in<int>(wire, kWireCount + 1, "kolo_wire") - 1);
}

}  // namespace kolo::c_api
