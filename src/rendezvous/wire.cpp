#include "rendezvous/wire.hpp"

#include <type_traits>

namespace kolo::rendezvous::wire {
namespace {

template <typename Number>
void put(std::string& out, Number number) {
  const auto bits = static_cast<std::make_unsigned_t<Number>>(number);
  for (std::size_t i = 0; i < sizeof(Number); ++i) out += static_cast<char>(bits >> (8 * i));
}

/// Takes a number off the front; false if there are too few bytes.
template <typename Number>
bool take(std::string_view& in, Number& number) {
  if (in.size() < sizeof(Number)) return false;
  std::make_unsigned_t<Number> bits = 0;
  for (std::size_t i = sizeof(Number); i-- > 0;) {
    bits = static_cast<std::make_unsigned_t<Number>>((bits << 8) | static_cast<unsigned char>(in[i]));
  }
  number = static_cast<Number>(bits);
  in.remove_prefix(sizeof(Number));
  return true;
}

// A byte shifted by eight keeps no bits, and C++ promotes it before the shift.
bool take(std::string_view& in, std::uint8_t& number) {
  if (in.empty()) return false;
  number = static_cast<std::uint8_t>(in.front());
  in.remove_prefix(1);
  return true;
}

bool known(std::uint8_t kind) {
  return (kind >= 1 && kind <= 5) || (kind >= 16 && kind <= 18);
}

Status malformed(const char* why) {
  return Status(Code::rendezvous, std::string("a message of the store makes no sense: ") + why);
}

}  // namespace

std::string encode(const Message& message) {
  std::string body;
  put(body, static_cast<std::uint8_t>(message.kind));
  put(body, message.number);
  put(body, static_cast<std::uint32_t>(message.items.size()));
  for (const std::string& item : message.items) {
    put(body, static_cast<std::uint32_t>(item.size()));
    body += item;
  }
  std::string frame;
  frame.reserve(kHeadBytes + body.size());
  put(frame, static_cast<std::uint32_t>(body.size()));
  return frame += body;
}

Result<std::size_t> body_bytes(std::string_view head) {
  std::uint32_t bytes = 0;
  if (!take(head, bytes)) return malformed("its length is cut off");
  if (bytes > kMaxBodyBytes) return malformed("it is too long");
  return static_cast<std::size_t>(bytes);
}

Result<Message> decode(std::string_view body) {
  Message message;
  std::uint8_t kind = 0;
  std::uint32_t count = 0;
  if (!take(body, kind) || !take(body, message.number) || !take(body, count))
    return malformed("it is cut off");
  if (!known(kind)) return malformed("its kind is unknown");
  if (count > kMaxItems) return malformed("it has too many items");
  message.kind = static_cast<Kind>(kind);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t bytes = 0;
    if (!take(body, bytes) || bytes > body.size()) return malformed("an item is cut off");
    message.items.emplace_back(body.substr(0, bytes));
    body.remove_prefix(bytes);
  }
  if (!body.empty()) return malformed("bytes follow its end");
  return message;
}

Status check_request(const Message& message) {
  std::size_t keys = 1;
  std::size_t values = 0;
  switch (message.kind) {
    case Kind::set:
      values = 1;
      break;
    case Kind::get:
    case Kind::add:
    case Kind::remove:
      break;
    case Kind::wait:
      keys = message.items.size();
      break;
    default:
      return malformed("it is no request");
  }
  if (message.items.size() != keys + values) return malformed("it has the wrong number of items");
  for (std::size_t i = 0; i < message.items.size(); ++i) {
    const Status status = i < keys ? check_key(message.items[i]) : check_value(message.items[i]);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace kolo::rendezvous::wire
