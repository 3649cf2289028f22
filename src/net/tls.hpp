// Tls and TlsStream: TLS 1.3 over any stream of bytes, between two sides that have done the handshake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/status.hpp"
#include "net/handshake.hpp"

typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_st SSL;

namespace kolo::net {

/// How this process encrypts. Immutable; thread-safe.
class Tls {
 public:
  /// An external pre-shared key for each connection, with an ephemeral key exchange (psk_dhe_ke, RFC 8446). A
  /// later leak of the job's key does not decrypt recorded traffic.
  static Result<std::shared_ptr<const Tls>> with_key();
  /// PEM files. Each side must show a certificate that `authority` has signed. Names in it are not checked,
  /// since the handshake has authenticated the rank. Code::invalid_argument names the file.
  static Result<std::shared_ptr<const Tls>> with_certificates(const std::string& certificate,
                                                              const std::string& private_key,
                                                              const std::string& authority);

  Encryption encryption() const { return encryption_; }
  SSL_CTX* context() const { return context_.get(); }

 private:
  Tls(Encryption encryption, std::shared_ptr<SSL_CTX> context)
      : encryption_(encryption), context_(std::move(context)) {}

  Encryption encryption_;
  std::shared_ptr<SSL_CTX> context_;
};

/// By KOLO_TLS and the other KOLO_TLS_ settings; null: no encryption.
Result<std::shared_ptr<const Tls>> make_tls(const Config& config);

inline Encryption encryption_of(const std::shared_ptr<const Tls>& tls) {
  return tls ? tls->encryption() : Encryption::none;
}

/// One side of one encrypted connection. It is bound to the handshake before it: neither can be combined with
/// another connection's. Without I/O: the caller moves bytes between the socket and space() and output().
/// After the first error every call returns it. Used by one thread at a time.
class TlsStream {
 public:
  /// Longest piece of plaintext that is sealed as one record.
  static constexpr std::size_t kRecordBytes = 16 << 10;
  /// After this many bytes the key changes: RFC 8446, section 5.5, allows AES-GCM some 390 GB.
  static constexpr std::uint64_t kBytesPerKey = std::uint64_t{64} << 30;

  /// `dialer`: this side connected. `secret`: Handshake::secret(), of a handshake with a key.
  /// `input_bytes`: the size of space().
  TlsStream(const Tls& tls, bool dialer, std::string secret, std::size_t input_bytes = 32 << 10);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;

  /// Where received bytes go; empty until open() has used up the earlier ones.
  std::span<std::byte> space();
  void filled(std::size_t bytes) { end_ += bytes; }
  /// Bytes to send; the caller removes what it has sent.
  std::string& output() { return output_; }

  /// Continues the setup of the connection as far as the bytes in space() allow.
  Status advance();
  /// True once both sides have authenticated: from now on data may flow.
  bool ready() const { return ready_; }
  /// Decrypts at most `into.size()` bytes; 0: more received bytes are needed.
  Result<std::size_t> open(std::span<std::byte> into);
  /// Whether received bytes wait for open().
  bool holds_input() const;
  /// Encrypts all of it into output(). Only when ready().
  Status seal(std::span<const std::byte> data);

 private:
  Status fail(int result, const char* doing);
  Status confirm();
  std::string confirmation(bool by_dialer) const;

  Encryption encryption_;
  bool dialer_;
  std::string secret_;
  SSL* ssl_ = nullptr;
  std::vector<std::byte> input_;
  std::size_t begin_ = 0, end_ = 0;  ///< the part of `input_` that is not read yet
  std::string output_;
  std::string confirmed_;  ///< the part of the other side's confirmation that has come
  bool said_ = false;      ///< this side's confirmation is sent
  bool ready_ = false;
  Status failed_;
  std::uint64_t sealed_ = 0;  // bytes encrypted with this key
};

}  // namespace kolo::net
