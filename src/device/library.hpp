// Library: a shared library that is opened when it is needed, and the functions in it.
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/status.hpp"

namespace kolo::device {

/// Stays open until the process ends: its threads and handlers may outlive every user. Copies are one
/// library.
class Library {
 public:
  /// The first of `names` that is there, as dlopen() takes them. Code::system, with what the system says of
  /// each, if there is none.
  static Result<Library> open(std::span<const std::string> names);

  /// Null, and remembered, where the library has no such function.
  void* find(const char* symbol);
  /// Code::system if a function that was looked for is not there: names it, and the library's file.
  Status complete() const;
  /// The file that it was loaded from.
  const std::string& path() const noexcept { return path_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
  std::string missing_;
};

/// The process's table of a library's functions, which `load` makes with the first call in which it can.
/// Never destroyed: the threads that use it may outlive static objects. Thread-safe.
template <typename Table>
Result<const Table*> loaded_once(std::atomic<const Table*>& loaded, Result<Table> (*load)()) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (loaded == nullptr) {
    auto table = load();
    if (!table.ok()) return table.status();
    loaded = new Table(std::move(table).value());
  }
  return loaded.load();
}

}  // namespace kolo::device
