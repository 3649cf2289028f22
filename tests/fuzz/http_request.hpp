// What must hold for any bytes that reach the server of metrics. Shared by the fuzzer and the unit test.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "trace/http.hpp"

namespace kolo::fuzz {

/// However the bytes are cut, the first verdict is the last one; what goes on being incomplete is short.
inline void http_request(std::string_view bytes) {
  using http::Verdict;
  Verdict verdict = Verdict::incomplete;
  for (std::size_t size = 0; size <= bytes.size() && verdict == Verdict::incomplete; ++size) {
    verdict = http::judge(bytes.substr(0, size));
    if (verdict == Verdict::incomplete && size > http::kMostRequestBytes) std::abort();
  }
  if (verdict == Verdict::incomplete) return;
  if (verdict == Verdict::page && !bytes.starts_with("GET /metrics")) std::abort();
  const std::string answer = http::response(verdict, "the page");
  const bool shows_page = answer.ends_with("\r\n\r\nthe page");
  if (shows_page != (verdict == Verdict::page)) std::abort();
}

}  // namespace kolo::fuzz
