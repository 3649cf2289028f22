// The timeline of all ranks in one file.
#include <limits>
#include <ostream>
#include <string_view>
#include <vector>

#include "base/whole_file.hpp"
#include "kolo/communicator.hpp"

namespace kolo {

void write_timeline(Communicator& communicator, const Timeline& timeline, const std::string& path) {
  // A host's steady clock starts when the host does. Ranks of one host read the same clock.
  std::int64_t clock = timeline.wall_clock().count();
  const std::int64_t own_clock = clock;
  communicator.broadcast(Buffer(&clock, 1, DType::int64), 0);
  const std::int64_t ahead = own_clock - clock;
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  const auto first = timeline.first_begin();
  std::int64_t origin =
      first == Timeline::TimePoint::max() ? kNone : first.time_since_epoch().count() + ahead;
  communicator.all_reduce(Buffer(&origin, 1, DType::int64), ReduceOp::min);
  if (origin == kNone) origin = 0;
  const std::string mine =
      timeline.chrome_events(communicator.rank(), {}, std::chrono::nanoseconds(ahead - origin));
  const std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(ConstBuffer(&length, 1, DType::uint64), lengths);
  std::uint64_t total = 0;
  for (const std::uint64_t one : lengths) total += one;
  std::string all(communicator.rank() == 0 ? total : 0, ' ');
  communicator.gather(ConstBuffer(mine.data(), length, DType::uint8),
                      Buffer(all.data(), all.size(), DType::uint8), 0, lengths);
  if (communicator.rank() != 0) return;
  write_whole_file(path, [&](std::ostream& file) {
    file << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    std::size_t at = 0;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      file << (r == 0 ? "" : ",\n") << std::string_view(all).substr(at, lengths[r]);
      at += lengths[r];
    }
    file << "\n]}\n";
  }).throw_if_error();
}

}  // namespace kolo
