#include "net/hmac.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <new>

#include <fmt/format.h>

#include "net/openssl.hpp"

namespace kolo::net {

std::string hmac(std::string_view key, std::string_view text) {
  use_openssl();
  std::string digest(kMacBytes, '\0');
  unsigned length = 0;
  const char* key_data = key.empty() ? "" : key.data();  // a null key means "as before" to OpenSSL
  if (!::HMAC(::EVP_sha256(), key_data, static_cast<int>(key.size()),
              reinterpret_cast<const unsigned char*>(text.data()), text.size(),
              reinterpret_cast<unsigned char*>(digest.data()), &length)) {
    throw std::bad_alloc();  // out of memory is the only failure; a MAC of zeros must never be compared
  }
  return digest;
}

std::string hmac_digits(std::string_view key, std::string_view text) {
  std::string digits;
  for (const char byte : hmac(key, text)) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

bool same_secret(std::string_view one, std::string_view other) {
  return one.size() == other.size() && ::CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace kolo::net
