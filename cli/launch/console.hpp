// Merges the output of all ranks into the launcher's standard output and error.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launch/output.hpp"
#include "launch/ranks.hpp"

namespace kolo::cli {

/// Writes whole lines, each with its rank in front. If output and error are the same terminal or file, both
/// share one queue, so their lines do not mix.
class Console {
 public:
  Console(int ranks, bool prefix);

  /// No bytes: the stream has ended.
  void take(int rank, Stream stream, std::string_view bytes);
  /// "kolo: text", on standard error.
  void say(std::string_view text) { err().line("kolo: ", text); }
  /// A line that is not from a rank, on standard error.
  void say_for(std::string_view who, std::string_view text) { err().line(who, text); }

  Room room() { return {!out_.full(), !err().full()}; }
  void watch(std::vector<pollfd>& entries) const;
  /// Writes as much as possible without blocking. Returns the first errno so far, or 0; output that cannot be
  /// written is dropped.
  int drain();
  void discard();
  /// Call it after the last line. True when everything is written.
  bool finish();

 private:
  Sink& err() { return one_sink_ ? out_ : err_; }

  Sink out_;
  Sink err_;
  const bool one_sink_;
  int error_ = 0;
  std::vector<LineCutter> lines_;  ///< output and error of each rank
};

}  // namespace kolo::cli
