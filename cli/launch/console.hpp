// Where the output of all ranks comes together: our own standard output and error.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launch/output.hpp"
#include "launch/ranks.hpp"

namespace kolo::cli {

/// Whole lines, each with its rank in front. Where output and error are one terminal or file, one queue keeps
/// their lines apart.
class Console {
 public:
  Console(int ranks, bool prefix);

  /// No bytes: the stream has ended.
  void take(int rank, Stream stream, std::string_view bytes);
  /// "kolo: text", on standard error.
  void say(std::string_view text) { err().line("kolo: ", text); }
  /// A line of somebody who is no rank, on standard error.
  void say_for(std::string_view who, std::string_view text) { err().line(who, text); }

  Room room() { return {!out_.full(), !err().full()}; }
  void watch(std::vector<pollfd>& entries) const;
  /// Writes what is taken without blocking. The first errno that this has met so far, or 0; what cannot be
  /// written is thrown away.
  int drain();
  void discard();
  /// After the last line. True when everything is written.
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
