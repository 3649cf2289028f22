// UnconnectedEndpoint: stands in for a connection that has not been made yet.
#pragma once

#include <string>

#include "transport/endpoint.hpp"

namespace kolo::transport {

/// Writes and reads no bytes. A Link queues what it has to send until the real endpoint replaces this one.
class UnconnectedEndpoint final : public Endpoint {
 public:
  explicit UnconnectedEndpoint(std::string_view transport) : transport_(transport) {}

  std::string_view transport() const override { return transport_; }
  std::string describe() const override { return transport_ + ", not connected"; }
  Result<std::size_t> write(std::span<const iovec>) override { return std::size_t{0}; }
  Result<std::size_t> read(std::span<std::byte>) override { return std::size_t{0}; }

  bool polls_are_free() const override { return false; }
  int fd() const override { return -1; }
  bool arm(bool) override { return true; }
  void disarm() override {}
  Status drain() override { return {}; }

 private:
  std::string transport_;
};

}  // namespace kolo::transport
