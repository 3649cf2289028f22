// Records: what `kolo run --hosts` and the `kolo run --part` that it starts on each host over ssh tell each
// other on the part's standard input and output.
//
//   part      "kolo-part 5 PORT\n", after whatever the host's shell may have printed, then records
//   launcher  records: the job, then signals, and something at least every second
//   record    "KIND NUMBER LENGTH\n", then LENGTH bytes of text
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace kolo::cli {

enum class RecordKind : char {
  // from a part
  out = 'o',   ///< number: the rank; text: its output, empty at the end of the stream
  err = 'e',   ///< as `out`, for standard error
  end = 'x',   ///< number: the rank, which has ended; text: "CODE SIGNAL" and a description
  say = 's',   ///< text: a message for the user
  done = 'd',  ///< no process of the job is left on this host, or it cannot be ended
  // from the launcher
  variable = 'V',   ///< text: "NAME=value", for the ranks
  argument = 'C',   ///< text: the program, or its next argument
  terminals = 'T',  ///< text: what the user watches, see text_of(Terminals); again after a change of size
  start = 'J',      ///< text: the directory to start the ranks in
  again = 'N',      ///< number: a rank to start again, as a newcomer
  signal = 'S',     ///< number: a signal, to be handled as by any launcher
  ready = 'R',   ///< number: sum of 1 (output) and 2 (errors); a stream that is not ready waits in the ranks'
                 ///< pipes
  finish = 'F',  ///< all ranks of the job have ended: end what they left behind
  alive = 'A',   ///< keeps the connection alive
};

struct Record {
  RecordKind kind = RecordKind::alive;
  int number = 0;
  std::string text;
};

/// What a part says first. `port`: a free port of its host.
std::string part_hello(int port);
std::string record(RecordKind kind, int number = 0, std::string_view text = {});

/// Parses records from a stream. A record over 16 MiB is an error.
class RecordReader {
 public:
  void feed(std::string_view bytes);
  /// The next whole record; nullopt: not complete yet; Code::system for invalid bytes.
  Result<std::optional<Record>> next();
  /// Skips the hello and what precedes it. The port; 0: it has not come yet. An error if it cannot come any
  /// more, or if the part has another version.
  Result<int> skip_hello();
  /// The bytes that came instead of records.
  std::string_view buffered() const { return std::string_view(buffer_).substr(taken_); }

 private:
  std::string buffer_;
  std::size_t taken_ = 0;
};

}  // namespace kolo::cli
