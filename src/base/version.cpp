#include "kolo/version.hpp"

namespace kolo {

const char* version() noexcept {
  return KOLO_VERSION;
}

}  // namespace kolo
