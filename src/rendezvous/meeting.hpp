// Meeting: where the ranks of a job meet, worked out from the environment without touching the network.
#pragma once

#include <string>

#include "base/config.hpp"
#include "base/status.hpp"
#include "kolo/store.hpp"
#include "rendezvous/launch.hpp"
#include "rendezvous/tcp_client.hpp"

namespace kolo {

struct Meeting {
  enum class Kind { memory, file, tcp };
  Kind kind = Kind::memory;
  std::string path;       ///< file
  StoreAddress address;   ///< tcp; its credentials name the job where the address may be another job's
  bool serve = false;     ///< tcp: this process serves
  bool one_host = false;  ///< tcp: every rank is on this host, so the server need not be seen from others
};

/// `key` is the job's secret. Code::invalid_argument that names the variable to set or to mend.
Result<Meeting> plan_meeting(const Launch& launch, const Config& config, const std::string& key,
                             const Lookup& lookup);

/// "tcp://host:port" or "file:///path" into `meeting`.
Status parse_store_url(const std::string& url, Meeting& meeting);

/// Serves or joins what was planned.
Result<std::shared_ptr<Store>> hold_meeting(const Meeting& meeting, std::chrono::nanoseconds timeout);

}  // namespace kolo
