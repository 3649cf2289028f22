#include "device/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <fmt/format.h>

namespace kolo::device {

Result<Library> Library::open(std::span<const std::string> names) {
  std::string reasons;
  for (const std::string& name : names) {
    Library library;
    library.handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle_ == nullptr) {
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", ::dlerror());
      continue;
    }
    const link_map* map = nullptr;
    const bool is_known = ::dlinfo(library.handle_, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0;
    library.path_ = is_known && map->l_name[0] != '\0' ? map->l_name : name;
    return library;
  }
  return Status(Code::system, reasons);
}

void* Library::find(const char* symbol) {
  void* const found = ::dlsym(handle_, symbol);
  if (found == nullptr) missing_ += fmt::format("{}{}", missing_.empty() ? "" : ", ", symbol);
  return found;
}

Status Library::complete() const {
  if (missing_.empty()) return {};
  return Status(Code::system, fmt::format("{} has no function {}", path_, missing_));
}

}  // namespace kolo::device
