#include "net/credentials.hpp"

#include "net/peer_user.hpp"

namespace kolo::net {

Status Credentials::allow(bool is_loopback, const std::string& address) const {
  if (is_loopback || insecure || !key.empty()) return {};
  return Status(Code::invalid_argument,
                address +
                    " is open to other hosts and there is no key: set KOLO_KEY or KOLO_KEY_FILE, the "
                    "same on all ranks, or KOLO_INSECURE=1 where each process that can connect is trusted");
}

Status Credentials::admit(int fd) const {
  return insecure || !key.empty() ? Status() : same_user(fd);
}

Result<Credentials> make_credentials(const Config& config, std::string key) {
  if (config.tls && key.empty()) {
    return Status(Code::invalid_argument,
                  "KOLO_TLS=1 needs the job's key: set KOLO_KEY or KOLO_KEY_FILE, the same on all ranks");
  }
  auto tls = make_tls(config);
  if (!tls.ok()) return tls.status();
  return Credentials{std::move(key), "", std::move(*tls), config.insecure};
}

}  // namespace kolo::net
