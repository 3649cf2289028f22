// HTTP: as much of it as a page of metrics needs. Pure functions of bytes; the request is not trusted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kolo::observe::http {

/// A request with headers that is longer than this is refused.
inline constexpr std::size_t kMostRequestBytes = 8192;

enum class Verdict {
  incomplete,   ///< more bytes may make it one
  page,         ///< GET /metrics
  not_found,    ///< GET of something else
  not_allowed,  ///< another method
  malformed,    ///< no HTTP/1 request, or too long
};

/// What the bytes that have come so far ask for.
Verdict judge(std::string_view request);

/// The whole answer, after which the connection is closed; `page` is used for Verdict::page alone.
std::string response(Verdict verdict, std::string_view page);

}  // namespace kolo::observe::http
