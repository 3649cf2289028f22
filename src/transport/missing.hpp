// Waiting for ranks to connect, and the error where some did not come.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "base/status.hpp"

namespace kolo {

/// How often somebody who waits asks whether one of those that it waits for is gone.
inline constexpr std::chrono::milliseconds kAskWhoIsGone{10};

/// Code::rendezvous that names the ranks of `missing`, each with what is known about it, and blames the
/// first. `missing` is not empty.
inline Status ranks_missing(std::string_view transport, int rank, const std::map<int, std::string>& missing) {
  std::string text = std::string(transport) + ": rank " + std::to_string(rank) + " waited in vain for ";
  const char* separator = "";
  for (const auto& [peer, known] : missing) {
    text += separator + ("rank " + std::to_string(peer));
    if (!known.empty()) text += " (" + known + ")";
    separator = ", ";
  }
  ErrorContext context;
  context.peer = missing.begin()->first;
  return Status(Code::rendezvous, std::move(text), std::move(context));
}

}  // namespace kolo
