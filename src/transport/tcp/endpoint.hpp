// The tcp endpoint: one connected socket.
#pragma once

#include <string>

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "transport/endpoint.hpp"

namespace kolo::tcp {

/// A peer whose process ends is noticed at once, because its kernel says so. A peer whose host vanishes
/// (power, cable) is noticed after about kSilence: by keepalive probes while nothing is in flight, and
/// otherwise by arm(), which asks the kernel when it last heard an acknowledgement. TCP_USER_TIMEOUT would
/// not do: it also ends a connection whose peer is alive and merely does not read for a while.
class TcpEndpoint final : public Endpoint {
 public:
  static constexpr std::chrono::seconds kSilence{30};

  /// `socket` is connected and non-blocking.
  explicit TcpEndpoint(UniqueFd socket);
  ~TcpEndpoint() override;

  std::string_view transport() const override { return "tcp"; }
  std::string describe() const override { return description_; }
  Result<std::size_t> write(std::span<const iovec> parts) override;
  Result<std::size_t> read(std::span<std::byte> into) override;
  bool is_memory() const override { return false; }
  int fd() const override { return socket_.get(); }
  bool arm(bool for_room) override;
  void disarm() override {}
  Status drain() override;
  bool can_pull() const override { return false; }
  std::optional<RemoteRange> expose(const void*, std::size_t) override { return std::nullopt; }
  Result<const std::byte*> map(const RemoteRange& range, std::size_t bytes) override;
  Status fetch(const RemoteRange& range, std::span<std::byte> into) override;
  void revoke() override {}
  bool revoked() const override { return false; }

 private:
  /// Remembers and returns the first error.
  Status lose(int error);
  bool peer_is_silent();

  UniqueFd socket_;
  std::string description_;
  Status lost_;
  Clock::time_point asked_at_ = Clock::now();
};

}  // namespace kolo::tcp
