#include "rendezvous/table.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/deadline.hpp"

namespace kolo::rendezvous {

Status check_key(std::string_view key) {
  if (key.size() <= kMaxKeyBytes) return {};
  return Status(Code::invalid_argument, fmt::format("the key {} has {} bytes; a store takes up to {}",
                                                    kolo::rendezvous::quoted(key), key.size(), kMaxKeyBytes));
}

Status check_value(std::string_view value) {
  if (value.size() <= kMaxValueBytes) return {};
  return Status(Code::invalid_argument,
                fmt::format("a value has {} bytes; a store takes up to {}", value.size(), kMaxValueBytes));
}

std::string quoted(std::string_view key) {
  constexpr std::size_t kShown = 120;
  std::string text = "\"";
  for (const char c : key.substr(0, kShown)) {
    const bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\';
    text += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text + (key.size() > kShown ? "...\"" : "\"");
}

Status missing_key(std::string_view key, std::string_view where, std::chrono::nanoseconds timeout) {
  const double seconds = to_seconds(timeout);
  ErrorContext context;
  context.waited = timeout;
  return Status(Code::timeout,
                fmt::format("the key {} did not appear in the store {} within {:.3g} s",
                            kolo::rendezvous::quoted(key), where, seconds),
                context);
}

const std::string* Table::find(const std::string& key) const {
  const auto at = entries_.find(key);
  return at == entries_.end() ? nullptr : &at->second;
}

Result<std::int64_t> Table::add(const std::string& key, std::int64_t amount) {
  std::int64_t sum = 0;
  if (const std::string* value = find(key)) {
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), sum);
    if (error != std::errc() || end != value->data() + value->size()) {
      return Status(Code::invalid_argument, fmt::format("cannot add to the key {}: it does not hold a number",
                                                        kolo::rendezvous::quoted(key)));
    }
  }
  if (__builtin_add_overflow(sum, amount, &sum)) {
    return Status(Code::invalid_argument, fmt::format("cannot add {} to the key {}: the sum leaves 64 bits",
                                                      amount, kolo::rendezvous::quoted(key)));
  }
  set(key, std::to_string(sum));
  return sum;
}

std::vector<std::string> Table::missing(const std::vector<std::string>& keys) const {
  std::vector<std::string> absent;
  for (const std::string& key : keys) {
    if (!find(key)) absent.push_back(key);
  }
  return absent;
}

}  // namespace kolo::rendezvous
