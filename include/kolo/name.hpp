// Name: a short text that stays valid.
#pragma once

#include <concepts>
#include <string_view>

namespace kolo {

/// A text that its holder may keep: made from any text, which may end before it. Each different text is kept
/// in memory once, until the process ends: names are few, so numbers do not belong in them. To copy a Name is
/// free; to make one takes a look-up. Thread-safe.
class Name {
 public:
  /// The empty text.
  constexpr Name() noexcept = default;
  /// A copy of the text.
  template <std::convertible_to<std::string_view> T>
  Name(const T& text) : text_(keep(text)) {}  // NOLINT: implicit on purpose

  /// The text, which lives as long as the process.
  constexpr operator std::string_view() const noexcept { return text_; }  // NOLINT: implicit on purpose
  /// Whether there is no text.
  constexpr bool empty() const noexcept { return text_.empty(); }

 private:
  static std::string_view keep(std::string_view text);
  std::string_view text_;
};

}  // namespace kolo
