#include "draw/web.hpp"

namespace kolo::draw {

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
  return filled_in(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string for_script(std::string_view json) {
  return filled_in(json, {{"<", "\\u003c"}});
}

}  // namespace kolo::draw
