// Waiting for ranks to connect, and the error if some did not come.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "base/status.hpp"
#include "transport/transport.hpp"

namespace kolo {

/// How often a waiting rank checks whether a rank that it waits for is gone.
inline constexpr std::chrono::milliseconds kAskWhoIsGone{10};

/// The ranks of `missing` that are known to have ended.
inline std::map<int, std::string> those_gone(const IsGone& is_gone,
                                             const std::map<int, std::string>& missing) {
  std::map<int, std::string> gone;
  for (const auto& [rank, known] : missing) {
    if (is_gone && is_gone(rank)) gone[rank] = "it is gone";
  }
  return gone;
}

/// "rank 1 (it has not dialled 10.0.0.2:4000), rank 3": the missing ranks, with what is known of each.
inline std::string names_of(const std::map<int, std::string>& missing) {
  std::string text;
  const char* separator = "";
  for (const auto& [peer, known] : missing) {
    text += separator + ("rank " + std::to_string(peer));
    if (!known.empty()) text += " (" + known + ")";
    separator = ", ";
  }
  return text;
}

/// Code::rendezvous that names the ranks of `missing` and blames the first. `missing` is not empty.
inline Status ranks_missing(std::string_view transport, int rank, const std::map<int, std::string>& missing) {
  ErrorContext context;
  context.peer = missing.begin()->first;
  return Status(
      Code::rendezvous,
      std::string(transport) + ": rank " + std::to_string(rank) + " waited in vain for " + names_of(missing),
      std::move(context));
}

}  // namespace kolo
