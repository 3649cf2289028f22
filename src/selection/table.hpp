// TuningTable: written by `kolo tune`, read by the chooser.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "schedule/schedule.hpp"
#include "selection/cost_model.hpp"

namespace kolo::selection {

/// The conditions of a measurement: the kinds of links ("shm", "shm+tcp") and the ranks on each host ("4",
/// "2+2").
struct Setting {
  std::string links;
  std::string layout;

  auto operator<=>(const Setting&) const = default;
};

/// "2+2+1" for hosts {0, 0, 1, 1, 2}; "4" for four ranks and no hosts.
std::string layout_of(const std::vector<int>& hosts, int size);

/// Lines of text, each with one fact; the last line on a fact counts:
///
///   kolo-table 1
///   model LINKS LAYOUT NUMBERS...                          a CostModel
///   time LINKS LAYOUT COLLECTIVE BYTES ALGORITHM SECONDS   of an undisturbed call
///   bandwidth HOST HOST BYTES_PER_SECOND                   from the first to the second
///
/// Lines that begin with '#' are comments. The setters reject whatever parse() would reject, so a table that
/// was written can be read. A value.
class TuningTable {
 public:
  using Times = std::map<std::string, double>;    ///< seconds by algorithm with its arguments
  using BySize = std::map<std::uint64_t, Times>;  ///< by bytes

  /// Fails with the number of the first malformed line.
  static Result<TuningTable> parse(const std::string& text);
  std::string text() const;

  /// False, and no change, for a number that no measurement gives or a name that is not exactly one word.
  bool set_model(const Setting& setting, const CostModel& model);
  bool set_time(const Setting& setting, schedule::Collective collective, std::uint64_t bytes,
                const std::string& algorithm, double seconds);
  bool set_bandwidth(const std::string& from, const std::string& to, double bytes_per_second);
  /// Removes the times of a collective before a new measurement.
  void forget(const Setting& setting, schedule::Collective collective) {
    times_.erase({setting, collective});
  }

  bool empty() const { return models_.empty() && times_.empty() && bandwidths_.empty(); }
  std::optional<CostModel> model(const Setting& setting) const;
  /// Null if nothing was measured.
  const BySize* times(const Setting& setting, schedule::Collective collective) const;
  std::optional<double> bandwidth(const std::string& from, const std::string& to) const;
  /// The hosts between which bandwidths are known. Numbered hosts (10.0.0.2, 10.0.0.10) are in the order of
  /// their numbers.
  std::vector<std::string> hosts() const;

 private:
  std::map<Setting, CostModel> models_;
  std::map<std::pair<Setting, schedule::Collective>, BySize> times_;
  std::map<std::pair<std::string, std::string>, double> bandwidths_;
};

/// Reads a table from a file; an empty table if there is no such file.
Result<TuningTable> read_table(const std::string& path);
/// Replaces the whole file; makes its folder if needed.
Status write_table(const std::string& path, const TuningTable& table);
/// Reads, changes and replaces the table under a lock, so that no other process does the same meanwhile.
Status update_table(const std::string& path, const std::function<void(TuningTable&)>& change);

/// The path of this user's table: KOLO_TABLE, else ~/.config/kolo/table (XDG_CONFIG_HOME is respected). Empty
/// for KOLO_TABLE=none, or if there is no home.
std::string table_path();

}  // namespace kolo::selection
