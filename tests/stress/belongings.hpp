// Belongings: the system resources of a process, compared before and after.
#pragma once

#include <string>

namespace kolo::stress {

struct Belongings {
  int descriptors = 0;
  int mappings = 0;  ///< of memfds
  int threads = 0;

  /// Of this process.
  static Belongings look();
  bool operator==(const Belongings&) const = default;
  std::string text() const;
};

}  // namespace kolo::stress
