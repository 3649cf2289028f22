// An in-memory endpoint for tests of Links: moves random amounts at a time, and can be closed.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "transport/link.hpp"

namespace kolo::test {

/// State shared by both ends of a pipe. `pulls`: receivers read large messages from the sender's memory.
struct PipeState {
  std::deque<std::byte> bytes[2];  // written by end 0 and by end 1
  bool revoked[2] = {false, false};
  bool pulls = false;
  bool shares_caches = false;
  bool frees = false;  // the sender revokes an offer and frees the memory just before it is read
  bool is_closed[2] = {false, false};    // writes to it fail ...
  std::vector<std::byte> last_words[2];  // ... because the peer has sent these bytes and closed
  std::size_t room = std::size_t{1} << 30;
  std::size_t most_at_once = std::size_t{1} << 30;
  std::uint64_t turn = std::uint64_t{1} << 30;
  int lone_credits[2] = {0, 0};  // writes of nothing but a credit frame
  std::mt19937 random{1};
};

class PipeEnd final : public transport::Endpoint {
 public:
  PipeEnd(std::shared_ptr<PipeState> state, int end) : state_(std::move(state)), end_(end) {}

  std::string_view transport() const override { return "pipe"; }
  std::string describe() const override { return "a pipe"; }
  Result<std::size_t> write(std::span<const iovec> parts) override {
    auto& bytes = state_->bytes[end_];
    if (state_->is_closed[1 - end_]) {
      const auto words = std::exchange(state_->last_words[1 - end_], {});
      state_->bytes[1 - end_].insert(state_->bytes[1 - end_].end(), words.begin(), words.end());
      return Status(Code::peer_lost, "the pipe is closed");
    }
    if (is_credit(parts)) ++state_->lone_credits[end_];
    std::size_t left = std::min(some(), state_->room - std::min(state_->room, bytes.size()));
    std::size_t written = 0;
    for (const iovec& part : parts) {
      const auto* from = static_cast<const std::byte*>(part.iov_base);
      const std::size_t size = std::min(part.iov_len, left);
      bytes.insert(bytes.end(), from, from + size);
      left -= size;
      written += size;
    }
    return written;
  }
  Result<std::size_t> read(std::span<std::byte> into) override {
    auto& bytes = state_->bytes[1 - end_];
    const std::size_t size = std::min({some(), into.size(), bytes.size()});
    const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(size);
    std::copy(bytes.begin(), end, into.begin());
    bytes.erase(bytes.begin(), end);
    return size;
  }
  bool shares_caches() const override { return state_->shares_caches; }
  std::uint64_t write_budget() const override { return state_->turn; }
  bool polls_are_free() const override { return true; }
  int fd() const override { return -1; }
  bool arm(bool) override { return false; }
  void disarm() override {}
  Status drain() override { return {}; }
  bool can_pull() const override { return state_->pulls; }
  std::optional<transport::RemoteRange> expose(const void* data, std::size_t) override {
    return transport::RemoteRange{0, reinterpret_cast<std::uintptr_t>(data)};
  }
  Result<const std::byte*> map(const transport::RemoteRange& range, std::size_t) override {
    if (state_->frees) {
      state_->revoked[1 - end_] = true;
      return Status(Code::system, "reading the peer's memory: Bad address");
    }
    return reinterpret_cast<const std::byte*>(range.offset);
  }
  Status fetch(const transport::RemoteRange&, std::span<std::byte>) override {
    return Status(Code::system, "unused");
  }
  void revoke() override { state_->revoked[end_] = true; }
  bool revoked() const override { return state_->revoked[1 - end_]; }

 private:
  static bool is_credit(std::span<const iovec> parts) {
    transport::FrameHeader header;
    if (parts.size() != 1 || parts[0].iov_len != sizeof header) return false;
    std::memcpy(&header, parts[0].iov_base, sizeof header);
    return header.type == transport::FrameType::credit;
  }
  std::size_t some() {
    return std::uniform_int_distribution<std::size_t>(1, state_->most_at_once)(state_->random);
  }

  std::shared_ptr<PipeState> state_;
  int end_;
};

/// Records the calls of a Link.
struct Heard final : transport::LinkListener {
  void on_mismatch(transport::Link&, const transport::Tag&, const transport::Signature&,
                   const transport::Signature&) override {
    ++mismatches;
  }
  void on_unexpected(transport::Link&, const transport::Tag&, const transport::Signature&) override {
    ++unexpected;
  }
  void on_control(transport::Link&, std::uint32_t kind, std::span<const std::byte> payload) override {
    controls.emplace_back(kind, std::vector<std::byte>(payload.begin(), payload.end()));
  }

  int mismatches = 0;
  int unexpected = 0;
  std::vector<std::pair<std::uint32_t, std::vector<std::byte>>> controls;
};

/// A message with memory of its own, which detects accesses after its end.
struct Message : transport::MessageRequest {
  Message(transport::Tag name, std::uint64_t size, bool stores_itself = false)
      : memory(size), stores(stores_itself), call{1, 2, 3, 4, 0, size, 7} {
    tag = name;
    signature = &call;
    bytes = size;
    if (stores) data = memory.data();
  }
  void consume(std::uint64_t offset, const std::byte* from, std::uint64_t size) override {
    if (done || offset != consumed || offset + size > memory.size()) __builtin_trap();
    if (!stores && reinterpret_cast<std::uintptr_t>(from) % 8 != 0) __builtin_trap();
    if (size > 0) std::memcpy(memory.data() + offset, from, size);
    consumed += size;
  }
  void finished() override {
    if (done) __builtin_trap();
    done = true;
  }

  std::vector<std::byte> memory;
  bool stores;
  transport::Signature call;
  std::uint64_t consumed = 0;
  bool done = false;
};

}  // namespace kolo::test
