#include "transport/handshake.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstring>
#include <utility>

#include "transport/random.hpp"

namespace kolo {
namespace {

constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMagicBytes = 8;
// The digit at the end is the version of the protocol, so that other versions are told from strangers in the
// logs of whoever reads the wire.
constexpr std::string_view kHello = "koloHEL1";
constexpr std::string_view kChallenge = "koloCHA1";
constexpr std::string_view kProof = "koloPRO1";
constexpr std::string_view kWelcome = "koloWEL1";
// magic, own rank, peer's rank, digest of the job, nonce
constexpr std::size_t kIntroductionBytes = kMagicBytes + 4 + 4 + kDigestBytes + kNonceBytes;
constexpr std::size_t kConfirmationBytes = kMagicBytes + kDigestBytes;

std::string hmac(const std::string& key, std::string_view text) {
  std::string digest(kDigestBytes, '\0');
  unsigned length = kDigestBytes;
  ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()), &length);
  return digest;
}

std::string job_digest(const std::string& job) {
  return hmac("kolo job", job);
}

std::string encode(std::uint32_t value) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

/// `bytes` holds at least four.
std::uint32_t decode(std::string_view bytes) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

Status refuse(const char* why) {
  return Status(Code::rendezvous, why);
}

}  // namespace

Handshake::Handshake(const Identity& me, int peer, bool dialer) : me_(me), peer_(peer), dialer_(dialer) {}

Handshake Handshake::dial(const Identity& me, int peer) {
  Handshake handshake(me, peer, true);
  handshake.say(handshake.introduction(kHello), false);
  handshake.expect(kIntroductionBytes + kDigestBytes);
  return handshake;
}

Handshake Handshake::accept(const Identity& me) {
  Handshake handshake(me, -1, false);
  handshake.expect(kIntroductionBytes);
  return handshake;
}

std::string Handshake::take_output() {
  return std::exchange(outgoing_, {});
}

Status Handshake::feed(std::span<const std::byte> bytes) {
  if (bytes.size() > wanted()) return refuse("more bytes than the handshake has");
  incoming_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (wanted() > 0) return Status();
  if (done_) return refuse("bytes after the handshake");
  if (!dialer_ && peer_ < 0) return on_hello();
  if (dialer_ && !answered_) return on_challenge();
  return on_confirmation();
}

Status Handshake::on_hello() {
  if (Status status = check_introduction(kHello); !status.ok()) return status;
  transcript_ += incoming_;
  answered_ = true;
  say(introduction(kChallenge), true);
  expect(kConfirmationBytes);
  return Status();
}

Status Handshake::on_challenge() {
  if (Status status = check_introduction(kChallenge); !status.ok()) return status;
  if (Status status = check_proof(kChallenge); !status.ok()) return status;
  answered_ = true;
  say(std::string(kProof), true);
  expect(kConfirmationBytes);
  return Status();
}

Status Handshake::on_confirmation() {
  if (Status status = check_proof(dialer_ ? kWelcome : kProof); !status.ok()) return status;
  if (!dialer_) say(std::string(kWelcome), true);
  done_ = true;
  expect(0);
  return Status();
}

std::string Handshake::introduction(std::string_view magic) {
  std::string nonce(kNonceBytes, '\0');
  fill_random(std::as_writable_bytes(std::span(nonce)));
  return std::string(magic) + encode(static_cast<std::uint32_t>(me_.rank)) +
         encode(static_cast<std::uint32_t>(peer_)) + job_digest(me_.job) + nonce;
}

Status Handshake::check_introduction(std::string_view magic) {
  const std::string_view message = incoming_;
  if (message.substr(0, kMagicBytes) != magic) return refuse("not kolo, or another version of it");
  const std::uint32_t theirs = decode(message.substr(kMagicBytes));
  const std::uint32_t mine = decode(message.substr(kMagicBytes + 4));
  if (message.substr(kMagicBytes + 8, kDigestBytes) != job_digest(me_.job))
    return refuse("a rank of another job");
  if (mine != static_cast<std::uint32_t>(me_.rank)) return refuse("a rank that looks for another");
  if (theirs > 0x7fffffff) return refuse("a rank that cannot be");
  if (dialer_ && static_cast<int>(theirs) != peer_) return refuse("another rank than the one wanted");
  peer_ = static_cast<int>(theirs);
  return Status();
}

Status Handshake::check_proof(std::string_view magic) {
  const std::string_view message = incoming_;
  if (message.substr(0, kMagicBytes) != magic) return refuse("not kolo, or another version of it");
  const std::string_view text = message.substr(0, message.size() - kDigestBytes);
  const std::string expected = hmac(me_.key, transcript_ + std::string(text));
  if (::CRYPTO_memcmp(expected.data(), message.data() + text.size(), kDigestBytes) != 0) {
    return refuse("a wrong proof: does it have the same key?");
  }
  transcript_ += incoming_;
  return Status();
}

void Handshake::say(std::string message, bool signed_message) {
  if (signed_message) message += hmac(me_.key, transcript_ + message);
  transcript_ += message;
  outgoing_ += message;
}

void Handshake::expect(std::size_t bytes) {
  incoming_.clear();
  expected_ = bytes;
}

}  // namespace kolo
