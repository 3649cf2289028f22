#include "net/openssl.hpp"

#include <openssl/crypto.h>

namespace kolo::net {

void use_openssl() {
  [[maybe_unused]] static const int ready = ::OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

}  // namespace kolo::net
