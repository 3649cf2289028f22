#include "net/tls.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>

#include "net/hmac.hpp"
#include "net/openssl.hpp"

namespace kolo::net {
namespace {

constexpr unsigned char kCipher[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256: its hash goes with the key
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr unsigned char kPskName[] = {'k', 'o', 'l', 'o'};

/// The oldest error of OpenSSL in this thread, in its words.
std::string openssl_error() {
  const unsigned long code = ::ERR_get_error();
  const char* reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  return reason ? reason : "unknown error";
}

// --- A BIO that reads and writes a TlsStream's buffers. ---------------------------------------------------

struct Buffers {
  const std::vector<std::byte>& input;
  std::size_t& begin;
  std::size_t& end;
  std::string& output;
};

int write_bytes(BIO* bio, const char* data, std::size_t size, std::size_t* written) {
  static_cast<Buffers*>(::BIO_get_data(bio))->output.append(data, size);
  *written = size;
  return 1;
}

int read_bytes(BIO* bio, char* into, std::size_t size, std::size_t* got) {
  Buffers& buffers = *static_cast<Buffers*>(::BIO_get_data(bio));
  ::BIO_clear_retry_flags(bio);
  *got = std::min(size, buffers.end - buffers.begin);
  if (*got == 0) {
    ::BIO_set_retry_read(bio);
    return 0;
  }
  std::memcpy(into, buffers.input.data() + buffers.begin, *got);
  buffers.begin += *got;
  return 1;
}

long control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int destroy(BIO* bio) {
  delete static_cast<Buffers*>(::BIO_get_data(bio));
  return 1;
}

const BIO_METHOD* buffer_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kolo");
    ::BIO_meth_set_write_ex(made, write_bytes);
    ::BIO_meth_set_read_ex(made, read_bytes);
    ::BIO_meth_set_ctrl(made, control);
    ::BIO_meth_set_destroy(made, destroy);
    return made;
  }();
  return method;
}

// --- The key of a connection, as OpenSSL asks for it. -----------------------------------------------------

int secret_index() {
  static const int index = ::SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

SSL_SESSION* key_session(SSL* ssl) {
  const auto& secret = *static_cast<const std::string*>(::SSL_get_ex_data(ssl, secret_index()));
  SSL_SESSION* session = ::SSL_SESSION_new();
  const SSL_CIPHER* cipher = ::SSL_CIPHER_find(ssl, kCipher);
  if (session && cipher &&
      ::SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(secret.data()),
                                    secret.size()) == 1 &&
      ::SSL_SESSION_set_cipher(session, cipher) == 1 &&
      ::SSL_SESSION_set1_id_context(session, kPskName, sizeof kPskName) == 1 &&
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  ::SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** name, std::size_t* name_length,
              SSL_SESSION** session) {
  *session = nullptr;
  if (digest && ::EVP_MD_get_type(digest) != NID_sha256) return 1;  // not a key for this hash
  *name = kPskName;
  *name_length = sizeof kPskName;
  *session = key_session(ssl);
  return *session ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* name, std::size_t name_length, SSL_SESSION** session) {
  const bool ours = std::equal(name, name + name_length, std::begin(kPskName), std::end(kPskName));
  *session = ours ? key_session(ssl) : nullptr;
  return 1;
}

Result<std::shared_ptr<SSL_CTX>> make_context() {
  use_openssl();
  const std::shared_ptr<SSL_CTX> context(::SSL_CTX_new(::TLS_method()), ::SSL_CTX_free);
  if (!context || ::SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_set_ciphersuites(context.get(), kCiphers) != 1) {
    return Status(Code::system, "this OpenSSL cannot do TLS 1.3: " + openssl_error());
  }
  ::SSL_CTX_set_num_tickets(context.get(), 0);
  ::SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_session_id_context(context.get(), kPskName, sizeof kPskName);
  ::SSL_CTX_set_options(context.get(), SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
  // Until an authority is loaded, every certificate is refused: a certificate cannot replace the key.
  ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

/// Replaces OpenSSL's own callback, which waits at the terminal. Records that it was called.
int refuse_passphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

}  // namespace

Result<std::shared_ptr<const Tls>> Tls::with_key() {
  auto context = make_context();
  if (!context.ok()) return context.status();
  ::SSL_CTX_set_psk_use_session_callback(context->get(), offer_key);
  ::SSL_CTX_set_psk_find_session_callback(context->get(), find_key);
  return std::shared_ptr<const Tls>(new Tls(Encryption::key, std::move(*context)));
}

Result<std::shared_ptr<const Tls>> Tls::with_certificates(const std::string& certificate,
                                                          const std::string& private_key,
                                                          const std::string& authority) {
  auto context = make_context();
  if (!context.ok()) return context.status();
  ::ERR_clear_error();
  bool encrypted = false;
  const auto wrong = [&](const char* variable, const std::string& path) {
    const std::string why =
        encrypted ? "it is encrypted, and kolo cannot ask for a passphrase" : openssl_error();
    return Status(Code::invalid_argument, std::string(variable) + ": " + path + ": " + why);
  };
  SSL_CTX* const ctx = context->get();
  ::SSL_CTX_set_default_passwd_cb(ctx, refuse_passphrase);
  ::SSL_CTX_set_default_passwd_cb_userdata(ctx, &encrypted);
  if (::SSL_CTX_use_certificate_chain_file(ctx, certificate.c_str()) != 1)
    return wrong("KOLO_TLS_CERT", certificate);
  if (::SSL_CTX_use_PrivateKey_file(ctx, private_key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      ::SSL_CTX_check_private_key(ctx) != 1) {
    return wrong("KOLO_TLS_KEY", private_key);
  }
  if (::SSL_CTX_load_verify_file(ctx, authority.c_str()) != 1) return wrong("KOLO_TLS_CA", authority);
  ::SSL_CTX_set_default_passwd_cb_userdata(ctx, nullptr);
  return std::shared_ptr<const Tls>(new Tls(Encryption::certificates, std::move(*context)));
}

Result<std::shared_ptr<const Tls>> make_tls(const Config& config) {
  if (!config.tls) return std::shared_ptr<const Tls>();
  if (config.tls_certificate.empty()) return Tls::with_key();
  return Tls::with_certificates(config.tls_certificate, config.tls_private_key, config.tls_authority);
}

TlsStream::TlsStream(const Tls& tls, bool dialer, std::string secret, std::size_t input_bytes)
    : encryption_(tls.encryption()),
      dialer_(dialer),
      secret_(std::move(secret)),
      ssl_(::SSL_new(tls.context())),
      input_(input_bytes) {
  BIO* bio = ::BIO_new(buffer_method());
  if (!ssl_ || !bio) {
    ::BIO_free(bio);
    failed_ = Status(Code::system, "TLS: out of memory");
    return;
  }
  ::BIO_set_data(bio, new Buffers{input_, begin_, end_, output_});
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(ssl_, bio, bio);
  ::SSL_set_ex_data(ssl_, secret_index(), &secret_);
  if (dialer) {
    ::SSL_set_connect_state(ssl_);
  } else {
    ::SSL_set_accept_state(ssl_);
  }
}

TlsStream::~TlsStream() {
  ::SSL_free(ssl_);
}

std::span<std::byte> TlsStream::space() {
  if (begin_ < end_) return {};
  begin_ = end_ = 0;
  return input_;
}

bool TlsStream::holds_input() const {
  return begin_ < end_ || (ssl_ && ::SSL_pending(ssl_) > 0);
}

Status TlsStream::fail(int result, const char* doing) {
  if (!failed_.ok()) return failed_;
  const int error = ::SSL_get_error(ssl_, result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {};
  if (error == SSL_ERROR_ZERO_RETURN) {
    failed_ = Status(Code::peer_lost, "Connection closed by peer");
  } else {
    std::string why = openssl_error();
    const long verified = ::SSL_get_verify_result(ssl_);
    if (encryption_ == Encryption::certificates && verified != X509_V_OK)
      why += std::string(" (") + ::X509_verify_cert_error_string(verified) + ")";
    failed_ = Status(ready_ ? Code::system : Code::rendezvous,
                     std::string("TLS failed while ") + doing + ": " + why);
  }
  return failed_;
}

Status TlsStream::advance() {
  if (!failed_.ok() || ready_) return failed_;
  ::ERR_clear_error();
  if (!::SSL_is_init_finished(ssl_)) {
    if (const int result = ::SSL_do_handshake(ssl_); result != 1) return fail(result, "setting it up");
    if (encryption_ == Encryption::key && ::SSL_session_reused(ssl_) != 1) {
      return failed_ = Status(Code::rendezvous, "TLS was set up without the job's key");
    }
  }
  if (encryption_ == Encryption::certificates) return confirm();  // a key binds the connection by itself
  ready_ = true;
  return {};
}

/// A MAC over this TLS connection that only the two sides of the handshake can compute.
std::string TlsStream::confirmation(bool by_dialer) const {
  constexpr std::string_view kLabel = "EXPERIMENTAL kolo";
  std::string exported(kMacBytes, '\0');
  if (::SSL_export_keying_material(ssl_, reinterpret_cast<unsigned char*>(exported.data()), exported.size(),
                                   kLabel.data(), kLabel.size(), nullptr, 0, 0) != 1) {
    return {};
  }
  return hmac(secret_, (by_dialer ? "dialer" : "acceptor") + exported);
}

Status TlsStream::confirm() {
  const std::string ours = confirmation(dialer_), theirs = confirmation(!dialer_);
  std::size_t done = 0;
  if (!said_) {
    if (const int result = ::SSL_write_ex(ssl_, ours.data(), ours.size(), &done); result != 1)
      return fail(result, "confirming it");
    said_ = true;
  }
  while (confirmed_.size() < kMacBytes) {
    char bytes[kMacBytes];
    if (const int result = ::SSL_read_ex(ssl_, bytes, kMacBytes - confirmed_.size(), &done); result != 1)
      return fail(result, "confirming it");
    confirmed_.append(bytes, done);
  }
  if (theirs.empty() || !same_secret(confirmed_, theirs)) {
    return failed_ = Status(Code::rendezvous, "TLS ends at another process than the handshake did");
  }
  ready_ = true;
  return {};
}

Result<std::size_t> TlsStream::open(std::span<std::byte> into) {
  if (!ready_) {
    if (Status status = advance(); !status.ok()) return status;
    if (!ready_) return std::size_t{0};
  }
  std::size_t done = 0;
  while (done < into.size() && failed_.ok()) {
    std::size_t got = 0;
    ::ERR_clear_error();
    const int result = ::SSL_read_ex(ssl_, into.data() + done, into.size() - done, &got);
    if (result != 1) {
      if (Status status = fail(result, "reading"); !status.ok() && done == 0) return status;
      break;
    }
    done += got;
  }
  if (done == 0 && !failed_.ok()) return failed_;
  return done;
}

Status TlsStream::seal(std::span<const std::byte> data) {
  if (!failed_.ok()) return failed_;
  std::size_t done = 0;
  ::ERR_clear_error();
  if (data.empty()) return {};
  sealed_ += data.size();
  if (sealed_ >= kBytesPerKey) {
    sealed_ = 0;
    if (::SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return fail(0, "changing keys");
  }
  const int result = ::SSL_write_ex(ssl_, data.data(), data.size(), &done);
  if (result == 1) return {};
  if (Status status = fail(result, "writing"); !status.ok()) return status;
  return failed_ = Status(Code::system, "TLS failed while writing: there was no room");
}

}  // namespace kolo::net
