#include "kolo/name.hpp"

#include <mutex>
#include <set>
#include <string>

namespace kolo {

std::string_view Name::keep(std::string_view text) {
  // Never destroyed: names may outlive other statics.
  static auto* const mutex = new std::mutex;
  static auto* const kept = new std::set<std::string, std::less<>>;
  if (text.empty()) return {};
  const std::lock_guard lock(*mutex);
  const auto found = kept->find(text);
  return found != kept->end() ? *found : *kept->emplace(text).first;
}

}  // namespace kolo
