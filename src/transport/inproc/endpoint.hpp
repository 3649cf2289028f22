// The inproc endpoint: one side of a Channel.
#pragma once

#include <memory>
#include <string>

#include "transport/endpoint.hpp"
#include "transport/inproc/channel.hpp"

namespace kolo::transport::inproc {

/// Ends its channel when destroyed.
class InprocEndpoint final : public Endpoint {
 public:
  /// `side` 0 is the lower rank.
  InprocEndpoint(std::shared_ptr<Channel> channel, int side);
  ~InprocEndpoint() override;

  std::string_view transport() const override { return "inproc"; }
  std::string describe() const override;
  Result<std::size_t> write(std::span<const iovec> parts) override;
  Result<std::size_t> read(std::span<std::byte> into) override;
  bool polls_are_free() const override { return true; }
  int fd() const override;
  bool arm(bool for_room) override;
  void disarm() override;
  Status drain() override;
  bool can_pull() const override { return true; }
  std::optional<RemoteRange> expose(const void* data, std::size_t bytes) override;
  Result<const std::byte*> map(const RemoteRange& range, std::size_t bytes) override;
  Status fetch(const RemoteRange& range, std::span<std::byte> into) override;
  /// Waits for a pull in progress: in one process, memory that its owner frees is gone at once.
  void revoke() override;
  bool revoked() const override;

 private:
  Direction& incoming() const { return channel_->direction(1 - side_); }
  /// Bytes that may be read now. If delayed bytes are held back, sets `next` to the time at which that
  /// changes.
  std::size_t readable(Clock::time_point& next);

  std::shared_ptr<Channel> channel_;
  int side_;
  RingWriter out_;
  RingReader in_;
};

}  // namespace kolo::transport::inproc
