#include "comm/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "algorithms/algorithm.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "base/text_reader.hpp"

namespace kolo::comm {
namespace {

/// KOLO_ALGORITHM must be an algorithm of some collective.
Status check_preferred_algorithm() {
  const std::string& preferred = config().algorithm;
  if (preferred.empty()) return {};
  for (std::size_t c = 0; c < schedule::kCollectives.size(); ++c) {
    if (algorithms::parse_algorithm(static_cast<schedule::Collective>(c), preferred).ok()) return {};
  }
  return algorithms::parse_algorithm(schedule::Collective::all_reduce, preferred)
      .status()
      .prefixed("KOLO_ALGORITHM=" + preferred);
}

/// A folder that cannot be written is found now, not after hours whose timelines would be lost.
Status prepare_timeline_folder() {
  const std::string& folder = config().timeline;
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) error.assign(errno, std::system_category());
  if (!error) return {};
  return Status(Code::invalid_argument, "KOLO_TIMELINE=" + folder + ": " + error.message());
}

Status check_transports(const Options& options) {
  const auto allowed = allowed_transports(options);
  if (!allowed.ok()) return allowed.status();
  const auto transport_options = transport::make_transport_options(config(), key_of(options), "", "", "");
  if (!transport_options.ok()) return transport_options.status();
  for (const transport::TransportFactory& factory : allowed.value()) {
    if (Status status = factory.check(transport_options.value()); !status.ok()) return status;
  }
  return {};
}

}  // namespace

Result<std::vector<transport::TransportFactory>> allowed_transports(const Options& options) {
  const std::string& names = options.transports.empty() ? config().transports : options.transports;
  const auto known = transport::transport_factories();
  if (names.empty()) return std::vector(known.begin(), known.end());
  TextReader items(names);
  std::vector<transport::TransportFactory> allowed;
  for (std::string name; std::getline(items, name, ',');) {
    const transport::TransportFactory* const found = transport::find_transport(name);
    if (found == nullptr) {
      return Status(Code::invalid_argument,
                    fmt::format("{}={}: there is no transport '{}'; known are {}",
                                options.transports.empty() ? "KOLO_TRANSPORTS" : "Options::transports", names,
                                name, fmt::join(transport::transport_names(), ", ")));
    }
    if (std::ranges::find(allowed, found->name, &transport::TransportFactory::name) == allowed.end())
      allowed.push_back(*found);
  }
  return allowed;
}

Status check_settings(const Options& options) {
  if (options.timeout.count() < 0) {
    return Status(Code::invalid_argument,
                  fmt::format("Options::timeout is negative: {} ns", options.timeout.count()));
  }
  if (Status status = check_preferred_algorithm(); !status.ok()) return status;
  if (Status status = check_transports(options); !status.ok()) return status;
  return prepare_timeline_folder();
}

const std::string& key_of(const Options& options) {
  return options.key.empty() ? job_key() : options.key;
}

/// With one recorded handshake, an attacker can try keys until one fits.
void warn_of_short_key(const Options& options) {
  constexpr std::size_t kShortest = 16;
  const std::size_t length = key_of(options).size();
  if (length == 0 || length >= kShortest) return;
  log().warn(
      "the job's key has {} {}, so it can be guessed: make one with `openssl rand -hex 32`, and give it "
      "to all ranks as Options::key, as KOLO_KEY or in a KOLO_KEY_FILE",
      length, length == 1 ? "character" : "characters");
}

}  // namespace kolo::comm
