#include "launch/terminals.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace kolo::cli {

Terminals own_terminals(int prefix) {
  Terminals found{::isatty(STDOUT_FILENO) == 1, ::isatty(STDERR_FILENO) == 1};
  winsize size{};
  if (found.any() && ::ioctl(found.out ? STDOUT_FILENO : STDERR_FILENO, TIOCGWINSZ, &size) == 0) {
    found.rows = size.ws_row;
    found.columns = std::max(size.ws_col - prefix, 0);
  }
  return found;
}

std::string text_of(const Terminals& terminals) {
  return fmt::format("{:d} {:d} {} {}", terminals.out, terminals.err, terminals.rows, terminals.columns);
}

Terminals terminals_of(const std::string& text) {
  int out = 0, err = 0, rows = 0, columns = 0;
  if (std::sscanf(text.c_str(), "%d %d %d %d", &out, &err, &rows, &columns) != 4) return {};
  return {out != 0, err != 0, rows, columns};
}

std::optional<PseudoTerminal> open_pseudo_terminal(const Terminals& size) {
  PseudoTerminal made{UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), {}};
  const int fd = made.launcher_end.get();
  if (fd < 0 || ::grantpt(fd) != 0 || ::unlockpt(fd) != 0) return std::nullopt;
  made.rank_end = UniqueFd(::ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios mode{};
  if (!made.rank_end.valid() || ::tcgetattr(made.rank_end.get(), &mode) != 0) return std::nullopt;
  ::cfmakeraw(&mode);
  if (::tcsetattr(made.rank_end.get(), TCSANOW, &mode) != 0) return std::nullopt;
  set_terminal_size(fd, size);
  return made;
}

void set_terminal_size(int fd, const Terminals& size) {
  winsize window{};
  window.ws_row = static_cast<unsigned short>(size.rows);
  window.ws_col = static_cast<unsigned short>(size.columns);
  ::ioctl(fd, TIOCSWINSZ, &window);
}

}  // namespace kolo::cli
