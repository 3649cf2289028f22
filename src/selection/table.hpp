// TuningTable: what `kolo tune` has measured, and the chooser reads.
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

namespace kolo {

/// Where a measurement holds: the kinds of links ("shm", "shm+tcp") and the ranks on each host ("4", "2+2").
struct Setting {
  std::string links;
  std::string layout;

  auto operator<=>(const Setting&) const = default;
};

/// "2+2+1" for hosts {0, 0, 1, 1, 2}; "4" for four ranks and no hosts.
std::string layout_of(const std::vector<int>& hosts, int size);

/// Lines of text, each a fact; the last word on a fact counts:
///
///   kolo-table 1
///   model LINKS LAYOUT NUMBERS...                          a CostModel
///   time LINKS LAYOUT COLLECTIVE BYTES ALGORITHM SECONDS   of an undisturbed call
///   bandwidth HOST HOST BYTES_PER_SECOND                   from the first to the second
///
/// Lines that begin with '#' are for people. What parse() would not take cannot be set either: a table that
/// was written can be read. A value.
class TuningTable {
 public:
  using Times = std::map<std::string, double>;    ///< seconds by algorithm with its arguments
  using BySize = std::map<std::uint64_t, Times>;  ///< by bytes

  /// Fails with the number of the first line that makes no sense.
  static Result<TuningTable> parse(const std::string& text);
  std::string text() const;

  /// False, and nothing is changed, for numbers that no measurement gives and names of no or several words.
  bool set_model(const Setting& setting, const CostModel& model);
  bool set_time(const Setting& setting, Collective collective, std::uint64_t bytes,
                const std::string& algorithm, double seconds);
  bool set_bandwidth(const std::string& from, const std::string& to, double bytes_per_second);
  /// Forgets the times of a collective, before it is measured anew.
  void forget(const Setting& setting, Collective collective) { times_.erase({setting, collective}); }

  bool empty() const { return models_.empty() && times_.empty() && bandwidths_.empty(); }
  std::optional<CostModel> model(const Setting& setting) const;
  /// Null where nothing was measured.
  const BySize* times(const Setting& setting, Collective collective) const;
  std::optional<double> bandwidth(const std::string& from, const std::string& to) const;
  /// Those between which bandwidths are known; numbered ones (10.0.0.2, 10.0.0.10) in the order of their
  /// numbers.
  std::vector<std::string> hosts() const;

 private:
  std::map<Setting, CostModel> models_;
  std::map<std::pair<Setting, Collective>, BySize> times_;
  std::map<std::pair<std::string, std::string>, double> bandwidths_;
};

/// The table in a file; an empty one where there is no such file.
Result<TuningTable> read_table(const std::string& path);
/// Replaces the file as a whole, making its folder where needed.
Status write_table(const std::string& path, const TuningTable& table);
/// Reads, changes and replaces it while no other process does the same.
Status update_table(const std::string& path, const std::function<void(TuningTable&)>& change);

/// Where the table of this user is: KOLO_TABLE, else ~/.config/kolo/table (XDG_CONFIG_HOME is respected).
/// Empty for KOLO_TABLE=none and where there is no home.
std::string table_path();

}  // namespace kolo
