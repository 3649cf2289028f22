// The part of a job over hosts that runs on one of them: it obeys the launcher at the other end of ssh.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/status.hpp"
#include "launch/job.hpp"

namespace kolo::cli {
namespace {

constexpr std::chrono::nanoseconds kAbandonedGrace = std::chrono::seconds(5);

}  // namespace

void Job::read_launcher() {
  silence_ = Deadline::after(kSilence);
  std::array<char, 1 << 16> block;
  const ssize_t got = ::read(STDIN_FILENO, block.data(), block.size());
  if (got > 0) launcher_.feed({block.data(), static_cast<std::size_t>(got)});
  for (;;) {
    const Result<std::optional<Record>> record = launcher_.next();
    if (!record.ok()) return abandon();
    if (!record.value()) break;
    handle_record(*record.value());
  }
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) abandon();
}

void Job::handle_record(const Record& record) {
  is_paused_ = false;
  switch (record.kind) {
    case RecordKind::variable:
      return variables_.push_back(record.text);
    case RecordKind::argument:
      return command_.push_back(record.text);
    case RecordKind::terminals:
      return resize(terminals_of(record.text));
    case RecordKind::start:
      return begin_part(record.text);
    case RecordKind::again:
      return stopping_ ? abandon() : start_rank(record.number, true);  // this host shuts down
    case RecordKind::signal:
      return handle_signal(record.number);
    case RecordKind::finish:
      may_finish_ = true;
      return;
    case RecordKind::ready:
      return console_.set_launcher_ready({(record.number & 1) != 0, (record.number & 2) != 0});
    default:
      return;
  }
}

void Job::begin_part(const std::string& directory) {
  if (std::exchange(has_job_, true)) return;
  if (::chdir(directory.c_str()) == 0) return start_ranks();
  const std::string why = Status::from_errno("cannot start in " + directory, errno).message();
  for (int r = 0; r < options_.ranks; ++r) exits_.push_back({options_.first_rank + r, kCannotStart, 0, why});
}

/// The launcher of this part is gone: stops the ranks.
void Job::abandon() {
  if (std::exchange(is_abandoned_, true)) return;
  may_finish_ = true;
  console_.close();
  kill_at_ = Deadline::after(std::min(options_.grace, kAbandonedGrace));
  stop_ranks(SIGTERM);
}

}  // namespace kolo::cli
