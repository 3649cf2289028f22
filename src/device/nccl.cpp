#include "device/nccl.hpp"

#include <array>

#include <fmt/format.h>

#include "base/config.hpp"

namespace kolo::device {
namespace {

constexpr int kOldest = 21400;  // from here on calls need not block

}  // namespace

std::atomic<const Nccl*> Nccl::loaded_ = nullptr;

Result<Nccl> Nccl::load() {
  const std::array<std::string, 1> names = {config().nccl_library.empty() ? "libnccl.so.2"
                                                                          : config().nccl_library};
  auto library = Library::open(names);
  if (!library.ok()) return library.status();
  Nccl nccl(std::move(library).value());
  if (Status s = nccl.library_.complete(); !s.ok()) return s;
  if (nccl.get_version.code(&nccl.version_) != 0 || nccl.version_ < kOldest) {
    return Status(Code::system, fmt::format("{} is NCCL {}, older than {}", nccl.path(),
                                            text_of(nccl.version_), text_of(kOldest)));
  }
  return nccl;
}

Result<const Nccl*> Nccl::instance() {
  return loaded_once(loaded_, &Nccl::load);
}

Status Nccl::status_of(const char* function, int code) {
  if (code == 0 || code == nccl::kInProgress) return {};
  const Nccl& nccl = *loaded_;  // which has called the function
  const char* const text = nccl.get_error_string_(code);
  const char* const last = nccl.get_last_error_(nullptr);
  const bool has_more = last != nullptr && *last != '\0';
  return Status(Code::system, fmt::format("{}: {}{}{}", function, text == nullptr ? "unknown error" : text,
                                          has_more ? ": " : "", has_more ? last : ""));
}

std::string Nccl::text_of(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace kolo::device
