// Proof: how a store's server and client show each other that they know the job's key.
//
//   server  greeting  magic nonce_s
//   client  answer    magic nonce_c HMAC-SHA256(key, "client" nonce_s nonce_c)
//   server  verdict   accepted HMAC-SHA256(key, "server" nonce_s nonce_c), or refused and zeros
//
// The server speaks first, so that a client never bothers a stranger that it met by mistake. The nonces are
// random, so nothing that was overheard serves a second time; the labels keep one side's proof from being
// reflected as the other's.
#pragma once

#include <string>
#include <string_view>

namespace kolo::proof {

inline constexpr std::string_view kMagic = "kolostr1";
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kMacBytes = 32;
inline constexpr std::size_t kGreetingBytes = kMagic.size() + kNonceBytes;
inline constexpr std::size_t kAnswerBytes = kMagic.size() + kNonceBytes + kMacBytes;
inline constexpr std::size_t kVerdictBytes = 1 + kMacBytes;

/// `bytes` random bytes from the operating system.
std::string random_bytes(std::size_t bytes);

/// HMAC-SHA256 (RFC 2104) of `text`; `key` may be empty.
std::string hmac(std::string_view key, std::string_view text);

/// The server's side of one connection.
class ServerProof {
 public:
  explicit ServerProof(std::string key);
  std::string greeting() const;
  /// The verdict on the client's kAnswerBytes bytes; `accepted` tells which.
  std::string judge(std::string_view answer, bool& accepted) const;

 private:
  std::string key_;
  std::string nonce_;
};

enum class Verdict { accepted, refused, stranger };

/// The client's side of one connection.
class ClientProof {
 public:
  explicit ClientProof(std::string key);
  /// The answer to the server's kGreetingBytes bytes; empty when it is not kolo that speaks.
  std::string answer(std::string_view greeting);
  /// `stranger` when the server accepted us without knowing the key itself.
  Verdict believe(std::string_view verdict) const;

 private:
  std::string key_;
  std::string server_nonce_;
  std::string nonce_;
};

}  // namespace kolo::proof
