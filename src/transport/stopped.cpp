#include "transport/stopped.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <string_view>

#include <fmt/format.h>

#include "base/unique_fd.hpp"

namespace kolo::transport {
namespace {

constexpr int kLooksInAHeartbeat = 5;

/// The state is the field behind the command's name. The name is in parentheses and may itself hold any
/// character.
bool is_stopped(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/stat";
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return false;
  char text[512];
  const ssize_t got = ::read(file.get(), text, sizeof text);
  const std::string_view stat(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  const auto name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= stat.size()) return false;
  const char state = stat[name_end + 2];
  return state == 'T' || state == 't';
}

}  // namespace

std::string StoppedProcesses::why_lost(pid_t process) {
  if (heartbeat_.count() == 0 || process <= 0) return {};
  const auto now = Clock::now();
  Seen& seen = seen_[process];
  // Mostly the process is waited for less than a pause, and reading its state costs more than all else here.
  if (seen.looked == Clock::time_point{}) seen.looked = now;
  const std::chrono::nanoseconds since = now - seen.looked;
  const auto pause = heartbeat_ / kLooksInAHeartbeat;
  if (since >= pause) {
    seen.looked = now;
    if (!is_stopped(process)) {
      seen.stopped_for = {};
    } else if (since < 2 * pause) {
      seen.stopped_for += since;
    }
  }
  if (seen.stopped_for < heartbeat_) return {};
  return fmt::format("its process {} has been stopped for {:.3g} s", process, to_seconds(seen.stopped_for));
}

}  // namespace kolo::transport
