#include "observe/http.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace kolo::observe::http {
namespace {

bool is_printable(char c) {
  return c > ' ' && c < '\x7f';
}

Verdict judge_line(std::string_view line) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return Verdict::malformed;
  const auto method = line.substr(0, first);
  const auto target = line.substr(first + 1, last - first - 1);
  const auto version = line.substr(last + 1);
  const bool makes_sense = !method.empty() && !target.empty() && std::ranges::all_of(method, is_printable) &&
                           std::ranges::all_of(target, is_printable);
  if (!makes_sense || (version != "HTTP/1.1" && version != "HTTP/1.0")) return Verdict::malformed;
  if (method != "GET") return Verdict::not_allowed;
  return target.substr(0, target.find('?')) == "/metrics" ? Verdict::page : Verdict::not_found;
}

}  // namespace

Verdict judge(std::string_view request) {
  const auto end = std::min(request.find("\r\n\r\n"), request.find("\n\n"));
  if (std::min(end, request.size()) > kMostRequestBytes) return Verdict::malformed;
  if (end == std::string_view::npos) return Verdict::incomplete;
  std::string_view line = request.substr(0, request.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return judge_line(line);
}

std::string response(Verdict verdict, std::string_view page) {
  std::string_view status = "400 Bad Request";
  std::string_view body = "This is no request that kolo understands.\n";
  std::string_view extra;
  if (verdict == Verdict::page) {
    status = "200 OK";
    body = page;
  } else if (verdict == Verdict::not_found) {
    status = "404 Not Found";
    body = "There is nothing here but /metrics.\n";
  } else if (verdict == Verdict::not_allowed) {
    status = "405 Method Not Allowed";
    extra = "Allow: GET\r\n";
    body = "Only GET.\n";
  }
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n"
      "{}Connection: close\r\n\r\n{}",
      status, body.size(), extra, body);
}

}  // namespace kolo::observe::http
