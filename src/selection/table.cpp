#include "selection/table.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/config.hpp"
#include "base/text_reader.hpp"
#include "base/unique_fd.hpp"
#include "base/whole_file.hpp"

namespace kolo::selection {
namespace {

constexpr std::string_view kHeading = "kolo-table 1";

template <typename Number>
bool read_number(const std::string& word, Number& out) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc() && end == word.data() + word.size();
}

/// Seconds, or bytes a second: a value outside these bounds comes from wrong arithmetic.
bool is_sane(double value) {
  return value >= 1e-12 && value <= 1e15;
}

bool is_word(const std::string& name) {
  return !name.empty() && name.find_first_of(" \t\n\v\f\r") == name.npos;
}

bool is_sane(const Setting& setting) {
  return is_word(setting.links) && is_word(setting.layout);
}

/// Adds one line to the table; false if it is malformed.
bool add_line(TuningTable& table, const std::string& line) {
  TextReader words(line);
  std::string what;
  words >> what;
  Setting setting;
  if (what == "model") {
    std::string numbers;
    if (!(words >> setting.links >> setting.layout) || !std::getline(words, numbers)) return false;
    const auto model = cost_model_from_text(numbers);
    return model.ok() && table.set_model(setting, model.value());
  }
  std::string number;
  double value = 0;
  if (what == "time") {
    std::string collective_name, bytes_text, algorithm, surplus;
    schedule::Collective collective;
    std::uint64_t bytes = 0;
    return (words >> setting.links >> setting.layout >> collective_name >> bytes_text >> algorithm >>
            number) &&
           !(words >> surplus) && schedule::parse_collective(collective_name, collective) &&
           read_number(bytes_text, bytes) && read_number(number, value) &&
           table.set_time(setting, collective, bytes, algorithm, value);
  }
  if (what == "bandwidth") {
    std::string from, to, surplus;
    return (words >> from >> to >> number) && !(words >> surplus) && read_number(number, value) &&
           table.set_bandwidth(from, to, value);
  }
  return false;
}

}  // namespace

std::string layout_of(const std::vector<int>& hosts, int size) {
  if (hosts.empty()) return std::to_string(size);
  std::map<int, int> ranks_on;
  for (const int host : hosts) ++ranks_on[host];
  std::string text;
  for (const auto& [host, ranks] : ranks_on) text += (text.empty() ? "" : "+") + std::to_string(ranks);
  return text;
}

Result<TuningTable> TuningTable::parse(const std::string& text) {
  TuningTable table;
  TextReader lines(text);
  std::string line;
  int number = 1;
  const auto wrong = [&](const char* why) {
    return Status(Code::invalid_argument, fmt::format("line {}: {}: '{}'", number, why, line.substr(0, 80)));
  };
  if (!std::getline(lines, line) || line != kHeading) return wrong("not a table that kolo tune wrote");
  while (std::getline(lines, line)) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    if (!add_line(table, line)) return wrong("this makes no sense");
  }
  return table;
}

bool TuningTable::set_model(const Setting& setting, const CostModel& model) {
  if (!is_sane(setting) || !is_sane(model)) return false;
  models_[setting] = model;
  return true;
}

bool TuningTable::set_time(const Setting& setting, schedule::Collective collective, std::uint64_t bytes,
                           const std::string& algorithm, double seconds) {
  if (!is_sane(setting) || !is_word(algorithm) || !is_sane(seconds)) return false;
  times_[{setting, collective}][bytes][algorithm] = seconds;
  return true;
}

bool TuningTable::set_bandwidth(const std::string& from, const std::string& to, double bytes_per_second) {
  if (!is_word(from) || !is_word(to) || !is_sane(bytes_per_second)) return false;
  bandwidths_[{from, to}] = bytes_per_second;
  return true;
}

std::string TuningTable::text() const {
  std::string result = fmt::format("{}\n", kHeading);
  for (const auto& [setting, model] : models_) {
    result += fmt::format("model {} {} {}\n", setting.links, setting.layout, to_text(model));
  }
  for (const auto& [pair, bytes_per_second] : bandwidths_) {
    result += fmt::format("bandwidth {} {} {:.4g}\n", pair.first, pair.second, bytes_per_second);
  }
  for (const auto& [key, by_size] : times_) {
    const auto& [setting, collective] = key;
    for (const auto& [bytes, times] : by_size) {
      for (const auto& [algorithm, seconds] : times) {
        result += fmt::format("time {} {} {} {} {} {:.4g}\n", setting.links, setting.layout,
                              schedule::name_of(collective), bytes, algorithm, seconds);
      }
    }
  }
  return result;
}

std::optional<CostModel> TuningTable::model(const Setting& setting) const {
  const auto found = models_.find(setting);
  return found == models_.end() ? std::nullopt : std::optional(found->second);
}

const TuningTable::BySize* TuningTable::times(const Setting& setting, schedule::Collective collective) const {
  const auto found = times_.find({setting, collective});
  return found == times_.end() ? nullptr : &found->second;
}

std::optional<double> TuningTable::bandwidth(const std::string& from, const std::string& to) const {
  const auto found = bandwidths_.find({from, to});
  return found == bandwidths_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> TuningTable::hosts() const {
  std::vector<std::string> hosts;
  for (const auto& [pair, bandwidth] : bandwidths_) hosts.push_back(pair.first);
  std::ranges::sort(hosts, {}, [](const std::string& host) { return std::pair(host.size(), host); });
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return hosts;
}

Result<TuningTable> read_table(const std::string& path) {
  constexpr std::uintmax_t kMostBytes = 16 << 20;
  std::error_code error;
  if (std::filesystem::exists(path, error) && (!std::filesystem::is_regular_file(path, error) ||
                                               std::filesystem::file_size(path, error) > kMostBytes)) {
    return Status(Code::invalid_argument, path + ": not a table that kolo tune wrote");
  }
  std::ifstream file(path);
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return TuningTable();
    return Status(Code::invalid_argument, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  std::stringstream text;
  text << file.rdbuf();
  auto table = TuningTable::parse(text.str());
  return table.ok() ? table : Result<TuningTable>(table.status().prefixed(path));
}

Status write_table(const std::string& path, const TuningTable& table) {
  std::error_code error;
  const std::filesystem::path target(path);
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  return write_whole_file(path, table.text());
}

Status update_table(const std::string& path, const std::function<void(TuningTable&)>& change) {
  std::error_code error;
  const std::filesystem::path target(path);
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  const std::string lock = path + ".lock";
  const UniqueFd held(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (held.get() < 0 || ::flock(held.get(), LOCK_EX) != 0)
    return Status::from_errno("cannot lock " + lock, errno);
  auto table = read_table(path);
  if (!table.ok()) return table.status();
  change(*table);
  return write_table(path, *table);
}

std::string table_path() {
  return config().table == "none" ? std::string() : config().table;
}

}  // namespace kolo::selection
