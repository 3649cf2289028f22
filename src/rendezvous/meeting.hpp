// Meeting: where the store of a job is, determined from the environment without using the network.
#pragma once

#include <string>

#include "base/config.hpp"
#include "base/status.hpp"
#include "kolo/store.hpp"
#include "rendezvous/launch.hpp"
#include "rendezvous/tcp_client.hpp"

namespace kolo::rendezvous {

struct Meeting {
  enum class Kind { memory, file, tcp };
  Kind kind = Kind::memory;
  std::string path;       ///< file
  StoreAddress address;   ///< tcp; its credentials name the job if another job may have the same address
  bool serve = false;     ///< tcp: this process serves
  bool one_host = false;  ///< tcp: every rank is on this host, so other hosts need not reach the server
};

/// `key` is the job's secret. Code::invalid_argument names the variable to set or to correct.
Result<Meeting> plan_meeting(const Launch& launch, const Config& config, const std::string& key,
                             const Lookup& lookup);

/// The prefix of the n-th call of store_from_environment().
std::string meeting_prefix(int call);
/// Keys of a job whose processes may join: a first group has met, and this process has been in a group.
inline constexpr const char* kGroupHasMet = "a group has met";
std::string attendance_key(int process);

/// Parses "tcp://host:port" or "file:///path" into `meeting`.
Status parse_store_url(const std::string& url, Meeting& meeting);

/// Serves or joins the store of `meeting`.
Result<std::shared_ptr<Store>> hold_meeting(const Meeting& meeting, std::chrono::nanoseconds timeout);

}  // namespace kolo::rendezvous
