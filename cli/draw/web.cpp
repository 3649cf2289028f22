#include "draw/web.hpp"

namespace kolo::draw {
namespace {

std::string replaced(std::string_view text, char what, std::string_view with) {
  std::string result;
  for (const char c : text) {
    if (c == what) {
      result += with;
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

std::string filled_in(std::string_view text,
                      const std::vector<std::pair<std::string_view, std::string_view>>& names) {
  std::string result;
  while (!text.empty()) {
    std::size_t at = text.npos;
    const std::pair<std::string_view, std::string_view>* found = nullptr;
    for (const auto& name : names) {
      const std::size_t here = text.find(name.first);
      if (here < at) {
        at = here;
        found = &name;
      }
    }
    result += text.substr(0, at);
    if (found == nullptr) break;
    result += found->second;
    text.remove_prefix(at + found->first.size());
  }
  return result;
}

std::string escaped(std::string_view text) {
  std::string result = replaced(text, '&', "&amp;");
  result = replaced(result, '<', "&lt;");
  result = replaced(result, '>', "&gt;");
  result = replaced(result, '"', "&quot;");
  return replaced(result, '\'', "&#39;");
}

std::string for_script(std::string json) {
  return replaced(json, '<', "\\u003c");
}

}  // namespace kolo::draw
