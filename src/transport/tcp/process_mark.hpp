// ProcessMark: tells the ranks of one host whether a process still listens. Its port does not: as soon as the
// process has ended, another one may listen there, such as a survivor that meets anew.
#pragma once

#include <string>

#include "base/unique_fd.hpp"

namespace kolo::transport::tcp {

/// An abstract Unix address, which disappears with its process.
class ProcessMark {
 public:
  ProcessMark();

  /// Unique; empty if the system has refused the address.
  const std::string& name() const { return name_; }
  /// `name`: of a process in this network namespace.
  static bool has_ended(const std::string& name);

 private:
  std::string name_;
  UniqueFd fd_;
};

}  // namespace kolo::transport::tcp
