#include "device/driver.hpp"

#include <array>
#include <string>

#include <fmt/format.h>

namespace kolo::device {

std::atomic<const Driver*> Driver::loaded_ = nullptr;

Result<Driver> Driver::load() {
  const std::array<std::string, 1> names = {"libcuda.so.1"};
  auto library = Library::open(names);
  if (!library.ok()) return library.status();
  Driver driver(std::move(library).value());
  if (Status s = driver.library_.complete(); !s.ok()) return s;
  if (const int code = driver.init.code(0); code != 0) {
    const char* text = nullptr;
    if (driver.get_error_string.code(code, &text) != 0 || text == nullptr) text = "unknown error";
    return Status(Code::system, fmt::format("cuInit: error {}: {}", code, text));
  }
  return driver;
}

Result<const Driver*> Driver::instance() {
  return loaded_once(loaded_, &Driver::load);
}

Status Driver::status_of(const char* function, int code) {
  const char* name = nullptr;
  const char* text = nullptr;
  const Driver& driver = *loaded_;  // which has called the function
  const bool is_known = driver.get_error_name.code(code, &name) == 0 &&
                        driver.get_error_string.code(code, &text) == 0 && name != nullptr && text != nullptr;
  return Status(Code::system, is_known ? fmt::format("{}: {}: {}", function, name, text)
                                       : fmt::format("{}: error {}", function, code));
}

}  // namespace kolo::device
