// Properties of a parameter server for any received words. Shared by the fuzzer and the test of the server.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "methods/parameter_server/request.hpp"

namespace kolo::fuzz {

/// A served request is within the limits and is one that a correct worker could send. A refused request has a
/// reason. Returns whether it is served.
inline bool server_request(std::string_view bytes) {
  using namespace methods;
  constexpr RequestLimits kLimits{.worker = 1, .elements = 100, .rows = 7};
  Header words{};
  std::memcpy(words.data(), bytes.data(), std::min(bytes.size(), sizeof words));
  const auto reply = parse_reply(words);
  if (reply && pack(*reply) != words) std::abort();
  std::string problem;
  const auto request = parse_request(words, kLimits, problem);
  if (request.has_value() != problem.empty()) std::abort();
  if (!request) return false;
  if (reply || pack(*request) != words) std::abort();
  if (request->worker != kLimits.worker || request->rows > kLimits.rows) std::abort();
  if (request->elements != (is_push(request->kind) ? kLimits.elements : 0)) std::abort();
  return true;
}

}  // namespace kolo::fuzz
