// Work that may fail on one rank, such as reading a file: all ranks learn of it, and none goes on alone.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "kolo/communicator.hpp"

namespace support {

/// Collective. Throws std::runtime_error, on all ranks, with the first rank whose `error` is not empty and
/// what it says; nothing happens if all are empty.
void throw_on_all_ranks(kolo::Communicator& communicator, std::string error);

/// Collective: what `body` returns on this rank. What it throws on any rank is thrown on all of them, as
/// throw_on_all_ranks() does.
template <typename Body>
auto on_all_ranks(kolo::Communicator& communicator, const Body& body) {
  std::optional<decltype(body())> result;
  std::string error;
  try {
    result.emplace(body());
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  throw_on_all_ranks(communicator, std::move(error));
  return std::move(*result);
}

}  // namespace support
