#include "kolo/trouble.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace kolo {
namespace {

/// "== " stands before an area, "- " before the fragments of text by which the cause above is known, and "~ "
/// before fragments that count only where there are no others: what is said around other messages, and the
/// system's words.
constexpr std::string_view kTable =
#include "base/trouble/core.txt"
#include "base/trouble/tools.txt"
#include "base/trouble/training.txt"
    ;

constexpr std::size_t kCodeLength = 4;                  // K204
constexpr std::size_t kSuffixLength = kCodeLength + 3;  // " [K204]"
constexpr std::size_t kNone = std::string_view::npos;

bool begins_with_code(std::string_view text) {
  return text.size() >= kCodeLength && text[0] == 'K' &&
         std::ranges::all_of(text.substr(1, kCodeLength - 1),
                             [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Whether " [K204]" stands at `at`.
bool is_suffix(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(std::min(at, text.size()), kSuffixLength);
  return rest.size() == kSuffixLength && rest.starts_with(" [") && rest.ends_with(']') &&
         begins_with_code(rest.substr(2));
}

/// The code in brackets at the end of the text; empty if there is none.
std::string_view last_code(std::string_view text) {
  if (text.size() < kSuffixLength || !is_suffix(text, text.size() - kSuffixLength)) return {};
  return text.substr(text.size() - kSuffixLength + 2, kCodeLength);
}

/// Calls `visit` with each part of `text` between separators.
template <typename Visit>
void for_each_part(std::string_view text, char separator, Visit visit) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    visit(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// The code of the fragment that comes first in the text, of the longest if several do: what follows are
/// details, among them names that users have given.
std::string_view code_of(std::string_view text) {
  std::string_view cause, found;
  for (const std::string_view mark : {"- ", "~ "}) {
    std::size_t first = kNone, length = 0;
    for_each_part(kTable, '\n', [&](std::string_view line) {
      if (begins_with_code(line)) cause = line.substr(0, kCodeLength);
      if (!line.starts_with(mark)) return;
      for_each_part(line.substr(mark.size()), '|', [&](std::string_view fragment) {
        const std::size_t at = text.find(fragment);
        if (at == kNone || at > first || (at == first && fragment.size() <= length)) return;
        first = at;
        length = fragment.size();
        found = cause;
      });
    });
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace

std::string with_code(std::string text, std::string_view otherwise) {
  if (!last_code(text).empty()) return text;
  std::string_view code = code_of(text);
  if (code.empty()) code = otherwise;
  if (code.empty()) return text;
  return text.append(" [").append(code).append("]");
}

std::string explain_error(std::string_view code_or_text) {
  std::string_view code = last_code(code_or_text);
  std::string capital(code_or_text.substr(0, kCodeLength));
  if (capital.starts_with('k')) capital.front() = 'K';
  if (code.empty()) code = begins_with_code(capital) ? capital : code_of(code_or_text);
  std::string entry;
  bool is_inside = false;
  for_each_part(kTable, '\n', [&](std::string_view line) {
    if (begins_with_code(line)) is_inside = line.starts_with(code) && !code.empty();
    if (line.empty() || line.starts_with("- ") || line.starts_with("~ ")) is_inside = false;
    if (is_inside) entry.append(line).append("\n");
  });
  return entry;
}

}  // namespace kolo
