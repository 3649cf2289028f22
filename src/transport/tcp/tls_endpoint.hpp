// The encrypted endpoint: TLS over another endpoint, which carries the bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "net/tls.hpp"
#include "transport/endpoint.hpp"

namespace kolo::transport::tcp {

/// Bytes that are decrypted, or wait to be, cannot be seen by polling a socket, and encrypted bytes may wait
/// for room although write() has nothing left to do. So this endpoint must be armed. fd() is an epoll set of
/// its own. It watches the wire for bytes and, while armed and something is to be sent, for room.
class TlsEndpoint final : public Endpoint {
 public:
  /// `wire` needs no arming; nothing but the handshake has gone over it.
  TlsEndpoint(std::unique_ptr<Endpoint> wire, const net::Tls& tls, bool dialer, std::string secret);

  std::string_view transport() const override { return wire_->transport(); }
  std::string describe() const override { return wire_->describe() + " (encrypted)"; }
  Result<bool> set_up() override;
  Result<std::size_t> write(std::span<const iovec> parts) override;
  Result<std::size_t> read(std::span<std::byte> into) override;
  std::uint64_t delivered() const override { return wire_->delivered(); }
  std::uint64_t undelivered() const override { return wire_->undelivered(); }
  bool polls_are_free() const override { return false; }
  bool must_be_armed() const override { return true; }
  bool holds_input() const override { return !lost_.ok() || tls_.holds_input(); }
  int fd() const override { return poll_.get(); }
  bool arm(bool for_room) override;
  void disarm() override { watch(false); }
  Status drain() override;

 private:
  Status flush();
  Status seal(std::span<const iovec> parts, std::size_t skip, std::size_t most, std::size_t& sealed);
  void watch(bool room);

  std::unique_ptr<Endpoint> wire_;
  net::TlsStream tls_;
  UniqueFd poll_;
  bool watches_room_ = false;
  std::size_t sent_ = 0;  ///< of tls_.output()
  /// Bytes that were encrypted but not reported as written: see write().
  std::size_t held_ = 0;
  std::vector<std::byte> record_;
  Status lost_;
};

}  // namespace kolo::transport::tcp
