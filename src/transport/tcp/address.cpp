#include "transport/tcp/address.hpp"

#include <algorithm>

namespace kolo::transport::tcp {
namespace {

/// Takes everything up to `end` (which must be there) off the front of `text`.
std::optional<std::string> take_until(std::string_view& text, std::string_view end) {
  const std::size_t at = text.find(end);
  if (at == text.npos) return std::nullopt;
  std::string taken(text.substr(0, at));
  text.remove_prefix(at + end.size());
  return taken;
}

bool same_kind(const net::SocketAddress& a, const net::SocketAddress& b) {
  return a.family() == b.family() && a.is_loopback() == b.is_loopback();
}

}  // namespace

std::string Address::text() const {
  std::string text = "host=" + host + (mark.empty() ? "" : ";mark=" + mark) + ";at=";
  for (std::size_t i = 0; i < at.size(); ++i) text += (i == 0 ? "" : ",") + at[i].text();
  return text;
}

std::optional<Address> Address::parse(std::string_view text) {
  Address address;
  if (!text.starts_with("host=")) return std::nullopt;
  text.remove_prefix(5);
  const auto process = take_until(text, ";at=");
  if (!process) return std::nullopt;
  std::string_view rest = *process;
  const auto host = take_until(rest, ";mark=");
  address.host = host.value_or(*process);
  if (host) address.mark = rest;
  if (address.host.empty()) return std::nullopt;
  while (address.at.size() < kMostAddresses) {
    const std::size_t end = std::min(text.find(','), text.size());
    const auto one = net::SocketAddress::parse(text.substr(0, end));
    if (!one) return std::nullopt;
    address.at.push_back(*one);
    if (end == text.size()) return address;
    text.remove_prefix(end + 1);
  }
  return std::nullopt;
}

std::vector<net::SocketAddress> candidates(const Address& from, const Address& to) {
  std::vector<net::SocketAddress> found;
  for (const net::SocketAddress& there : to.at) {
    const bool have = std::any_of(from.at.begin(), from.at.end(),
                                  [&](const net::SocketAddress& here) { return same_kind(here, there); });
    if (have && (from.host == to.host || !there.is_loopback())) found.push_back(there);
  }
  std::stable_partition(found.begin(), found.end(),
                        [](const net::SocketAddress& a) { return a.is_loopback(); });
  return found;
}

}  // namespace kolo::transport::tcp
