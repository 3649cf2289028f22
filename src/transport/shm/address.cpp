#include "transport/shm/address.hpp"

#include <unistd.h>

#include "net/random.hpp"
#include "transport/host.hpp"

namespace kolo::transport::shm {
namespace {

constexpr std::size_t kLongestName = 100;  // sun_path has 108 bytes

/// Takes "NAME=VALUE;" or, at the end, "NAME=VALUE" off the front of `text`.
bool take_field(std::string_view& text, std::string_view name, std::string& value) {
  if (!text.starts_with(name) || text.substr(name.size(), 1) != "=") return false;
  text.remove_prefix(name.size() + 1);
  const std::size_t end = std::min(text.find(';'), text.size());
  value = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return !value.empty();
}

}  // namespace

std::string Address::text() const {
  return "host=" + host + ";user=" + user_namespace + ";uid=" + uid + ";socket=" + socket;
}

std::optional<Address> Address::parse(std::string_view text) {
  Address address;
  if (!take_field(text, "host", address.host) || !take_field(text, "user", address.user_namespace) ||
      !take_field(text, "uid", address.uid) || !take_field(text, "socket", address.socket) || !text.empty() ||
      address.socket.size() > kLongestName) {
    return std::nullopt;
  }
  return address;
}

Address Address::make(const std::string& host) {
  const std::string user_namespace = namespace_of("user");
  return {host, user_namespace.empty() ? "hidden" : user_namespace, std::to_string(::geteuid()),
          "kolo-" + std::to_string(::getpid()) + "-" + net::random_hex(12)};
}

bool same_place(const Address& one, const Address& other) {
  return one.host == other.host && one.user_namespace == other.user_namespace && one.uid == other.uid;
}

}  // namespace kolo::transport::shm
