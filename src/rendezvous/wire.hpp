// Wire: the protocol between a store's client and its server, after the handshake.
//
//   frame    body_bytes:u32 body                                             (little-endian)
//   body     kind:u8 number:i64 item_count:u32 (item_bytes:u32 item)*
//
// Requests and replies have the same shape. One request is answered by one reply, in order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "rendezvous/table.hpp"

namespace kolo::rendezvous::wire {

enum class Kind : std::uint8_t {
  set = 1,     ///< items: key, value
  get = 2,     ///< items: key; number: nanoseconds to wait
  add = 3,     ///< items: key; number: the amount
  wait = 4,    ///< items: keys; number: nanoseconds to wait
  remove = 5,  ///< items: key
  done = 16,   ///< reply; get: the value; add: number is the sum; wait: the keys that are missing
  late = 17,   ///< reply to get: the key did not appear
  wrong = 18,  ///< reply: the request is invalid for the key; item: why
};

struct Message {
  Kind kind = Kind::done;
  std::int64_t number = 0;
  std::vector<std::string> items;

  bool operator==(const Message&) const = default;
};

/// Increases with each change here, or to what ranks put into a store while they connect.
inline constexpr std::uint32_t kVersion = 7;
inline constexpr std::size_t kHeadBytes = 4;
inline constexpr std::size_t kMaxItems = 4096;
/// Room for the largest set(), and for a wait() of kMaxItems keys of ordinary length.
inline constexpr std::size_t kMaxBodyBytes = kMaxValueBytes + kMaxKeyBytes + 64;

/// Encodes the whole frame. The message must respect the limits.
std::string encode(const Message& message);

/// The size of the body that follows these kHeadBytes bytes; an error if it is over the limit.
Result<std::size_t> body_bytes(std::string_view head);

/// The inverse of encode(), without the head. An error if bytes are left over.
Result<Message> decode(std::string_view body);

/// Whether the message is a request with the items of its kind, within the limits of a store.
Status check_request(const Message& message);

}  // namespace kolo::rendezvous::wire
