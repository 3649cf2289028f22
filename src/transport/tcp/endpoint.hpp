// The tcp endpoint: one connected socket.
#pragma once

#include <chrono>
#include <string>

#include "base/unique_fd.hpp"
#include "transport/endpoint.hpp"

namespace kolo::transport::tcp {

/// When a peer's process ends, its kernel says so and this side notices at once. When its host vanishes
/// (power, cable), keep-alive probes notice it while nothing is in flight, and the engine's heartbeats while
/// a rank waits. TCP_USER_TIMEOUT is not suitable: it also ends a connection whose peer is alive and merely
/// does not read for a while.
class TcpEndpoint final : public Endpoint {
 public:
  /// `socket` is connected and non-blocking. `heartbeat`: as TransportOptions.
  TcpEndpoint(UniqueFd socket, std::chrono::nanoseconds heartbeat);
  ~TcpEndpoint() override;

  std::string_view transport() const override { return "tcp"; }
  std::string describe() const override { return description_; }
  Result<std::size_t> write(std::span<const iovec> parts) override;
  Result<std::size_t> read(std::span<std::byte> into) override;
  std::uint64_t delivered() const override { return written_ - undelivered(); }
  std::uint64_t undelivered() const override;
  bool shares_caches() const override { return stays_in_host_; }
  std::uint64_t write_budget() const override;
  bool polls_are_free() const override { return false; }
  int fd() const override { return socket_.get(); }
  bool arm(bool) override { return lost_.ok(); }
  void disarm() override {}
  void expect(std::uint64_t bytes) override;
  Status drain() override;

 private:
  /// Remembers and returns the first error.
  Status lose(int error);

  UniqueFd socket_;
  std::string description_;
  bool stays_in_host_;
  Status lost_;
  std::uint64_t written_ = 0;
  int wakes_at_ = 1;       ///< bytes to read before fd() polls readable
  bool took_all_ = false;  ///< the last read() took all that there was
};

}  // namespace kolo::transport::tcp
