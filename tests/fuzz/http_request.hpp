// Properties of the metrics server for any received bytes. Shared by the fuzzer and the unit test.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "observe/http.hpp"

namespace kolo::fuzz {

/// The result does not depend on how the bytes are cut, and the first final result stays. An incomplete
/// request is short.
inline void http_request(std::string_view bytes) {
  using observe::http::Verdict;
  Verdict verdict = Verdict::incomplete;
  for (std::size_t size = 0; size <= bytes.size() && verdict == Verdict::incomplete; ++size) {
    verdict = observe::http::judge(bytes.substr(0, size));
    if (verdict == Verdict::incomplete && size > observe::http::kMostRequestBytes) std::abort();
  }
  if (verdict == Verdict::incomplete) return;
  if (verdict == Verdict::page && !bytes.starts_with("GET /metrics")) std::abort();
  const std::string answer = observe::http::response(verdict, "the page");
  const bool shows_page = answer.ends_with("\r\n\r\nthe page");
  if (shows_page != (verdict == Verdict::page)) std::abort();
}

}  // namespace kolo::fuzz
