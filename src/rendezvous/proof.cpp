#include "rendezvous/proof.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace kolo::proof {
namespace {

constexpr char kAccepted = 'A';
constexpr char kRefused = 'R';

std::string mac(std::string_view key, std::string_view label, std::string_view server_nonce,
                std::string_view client_nonce) {
  std::string text(label);
  text.append(server_nonce).append(client_nonce);
  return hmac(key, text);
}

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::string random_bytes(std::size_t bytes) {
  std::string out(bytes, '\0');
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::getrandom(out.data() + done, bytes - done, 0);
    // Without randomness there is no security to degrade to; Linux fails here only for a bad address.
    if (got < 0 && errno != EINTR) std::abort();
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  return out;
}

std::string hmac(std::string_view key, std::string_view text) {
  std::string out(kMacBytes, '\0');
  unsigned int length = 0;
  const char* key_data = key.empty() ? "" : key.data();  // a null key means "as before" to OpenSSL
  if (!::HMAC(EVP_sha256(), key_data, static_cast<int>(key.size()),
              reinterpret_cast<const unsigned char*>(text.data()), text.size(),
              reinterpret_cast<unsigned char*>(out.data()), &length)) {
    std::abort();  // out of memory inside OpenSSL; a proof of zeros must never be compared
  }
  return out;
}

ServerProof::ServerProof(std::string key) : key_(std::move(key)), nonce_(random_bytes(kNonceBytes)) {}

std::string ServerProof::greeting() const {
  return std::string(kMagic) + nonce_;
}

std::string ServerProof::judge(std::string_view answer, bool& accepted) const {
  const std::string_view magic = answer.substr(0, kMagic.size());
  const std::string_view client_nonce = answer.substr(kMagic.size(), kNonceBytes);
  const std::string_view claim = answer.substr(kMagic.size() + kNonceBytes);
  accepted = magic == kMagic && same(claim, mac(key_, "client", nonce_, client_nonce));
  if (!accepted) return kRefused + std::string(kMacBytes, '\0');
  return kAccepted + mac(key_, "server", nonce_, client_nonce);
}

ClientProof::ClientProof(std::string key) : key_(std::move(key)), nonce_(random_bytes(kNonceBytes)) {}

std::string ClientProof::answer(std::string_view greeting) {
  if (greeting.size() != kGreetingBytes || !greeting.starts_with(kMagic)) return "";
  server_nonce_ = greeting.substr(kMagic.size());
  return std::string(kMagic) + nonce_ + mac(key_, "client", server_nonce_, nonce_);
}

Verdict ClientProof::believe(std::string_view verdict) const {
  if (verdict.size() != kVerdictBytes) return Verdict::stranger;
  if (verdict.front() == kRefused) return Verdict::refused;
  const bool proved = same(verdict.substr(1), mac(key_, "server", server_nonce_, nonce_));
  return verdict.front() == kAccepted && proved ? Verdict::accepted : Verdict::stranger;
}

}  // namespace kolo::proof
