// Pseudo-terminals for the output of ranks: on a terminal, programs print line by line and in colours.
#pragma once

#include <optional>
#include <string>

#include "base/unique_fd.hpp"

namespace kolo::cli {

/// The terminals that a launcher writes to. A rank's stream is a terminal where the launcher's is one.
struct Terminals {
  bool out = false;
  bool err = false;
  int rows = 0;     ///< 0: unknown
  int columns = 0;  ///< without the prefix of a line; 0: unknown

  bool any() const { return out || err; }
};

/// Those of this process. `prefix`: columns that the prefix of a line takes.
Terminals own_terminals(int prefix);

/// As one line of text, for the parts of a job; text that makes no sense means no terminals.
std::string text_of(const Terminals& terminals);
Terminals terminals_of(const std::string& text);

struct PseudoTerminal {
  UniqueFd launcher_end;
  UniqueFd rank_end;
};

/// Passes bytes on unchanged, as a pipe does: no echo, no carriage returns, no signals. No process has it as
/// its controlling terminal. nullopt: the system has none to give.
std::optional<PseudoTerminal> open_pseudo_terminal(const Terminals& size);

/// Does nothing to a descriptor that is no terminal.
void set_terminal_size(int fd, const Terminals& size);

}  // namespace kolo::cli
