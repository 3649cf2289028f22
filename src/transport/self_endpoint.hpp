// SelfEndpoint: a rank's stream to itself, so that messages to itself need no special case.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "transport/endpoint.hpp"

namespace kolo::transport {

class SelfEndpoint final : public Endpoint {
 public:
  std::string_view transport() const override { return "self"; }
  std::string describe() const override { return "self"; }

  Result<std::size_t> write(std::span<const iovec> parts) override {
    std::size_t written = 0;
    for (const iovec& part : parts) {
      const auto* bytes = static_cast<const std::byte*>(part.iov_base);
      stream_.insert(stream_.end(), bytes, bytes + part.iov_len);
      written += part.iov_len;
    }
    return written;
  }
  Result<std::size_t> read(std::span<std::byte> into) override {
    const std::size_t size = std::min(into.size(), stream_.size() - read_);
    if (size > 0) std::memcpy(into.data(), stream_.data() + read_, size);
    read_ += size;
    if (read_ == stream_.size()) {
      stream_.clear();
      read_ = 0;
    }
    return size;
  }

  bool polls_are_free() const override { return true; }
  int fd() const override { return -1; }
  bool arm(bool) override { return stream_.empty(); }
  void disarm() override {}
  Status drain() override { return {}; }

  bool can_pull() const override { return true; }
  std::optional<RemoteRange> expose(const void* data, std::size_t) override {
    return RemoteRange{0, reinterpret_cast<std::uintptr_t>(data)};
  }
  Result<const std::byte*> map(const RemoteRange& range, std::size_t) override {
    return reinterpret_cast<const std::byte*>(range.offset);
  }
  Status fetch(const RemoteRange& range, std::span<std::byte> into) override {
    std::memcpy(into.data(), reinterpret_cast<const std::byte*>(range.offset), into.size());
    return {};
  }
  void revoke() override {}
  bool revoked() const override { return false; }

 private:
  std::vector<std::byte> stream_;
  std::size_t read_ = 0;
};

}  // namespace kolo::transport
