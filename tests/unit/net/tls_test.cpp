// TLS over buffers: both kinds of keys, accepted and refused peers, and bytes that are changed in transit.
#include "net/tls.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "support/temporary_folder.hpp"

namespace kolo {
namespace {

const std::string kSecret(32, 's');

/// Moves all bytes that one side has to send to the other side; false if there were none.
bool carry(net::TlsStream& from, net::TlsStream& to) {
  std::string& bytes = from.output();
  const auto space = to.space();
  const std::size_t size = std::min(space.size(), bytes.size());
  if (size == 0) return false;
  std::memcpy(space.data(), bytes.data(), size);
  to.filled(size);
  bytes.erase(0, size);
  return true;
}

/// Sets up the connection; returns the first error of either side.
Status meet(net::TlsStream& a, net::TlsStream& b) {
  for (int round = 0; round < 10 && !(a.ready() && b.ready()); ++round) {
    if (Status status = a.advance(); !status.ok()) return status;
    carry(a, b);
    if (Status status = b.advance(); !status.ok()) return status;
    carry(b, a);
  }
  return a.ready() && b.ready() ? Status() : Status(Code::timeout, "they do not get on");
}

std::shared_ptr<const net::Tls> keyed() {
  return net::Tls::with_key().value_or_throw();
}

std::string text_of(net::TlsStream& stream, std::size_t bytes) {
  std::string text(bytes, '\0');
  const auto got = stream.open(std::as_writable_bytes(std::span(text)));
  EXPECT_TRUE(got.ok()) << got.status().message();
  text.resize(got.ok() ? got.value() : 0);
  return text;
}

void expect_talk(net::TlsStream& a, net::TlsStream& b) {
  const std::string words = "what is said here stays here";
  ASSERT_TRUE(a.seal(std::as_bytes(std::span(words))).ok());
  EXPECT_EQ(a.output().find("stays"), std::string::npos) << "it is not encrypted";
  ASSERT_TRUE(carry(a, b));
  EXPECT_TRUE(b.holds_input());
  EXPECT_EQ(text_of(b, 4) + text_of(b, 100), words);
  EXPECT_FALSE(b.holds_input());
  EXPECT_EQ(text_of(b, 1), "");
}

TEST(Tls, BothWhoHaveTheKeyTalk) {
  const auto tls = keyed();
  net::TlsStream dialer(*tls, true, kSecret), acceptor(*tls, false, kSecret);
  const Status status = meet(dialer, acceptor);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_talk(dialer, acceptor);
  expect_talk(acceptor, dialer);
}

TEST(Tls, AnotherKeyIsRefused) {
  const auto tls = keyed();
  net::TlsStream dialer(*tls, true, kSecret), acceptor(*tls, false, std::string(32, 'x'));
  const Status status = meet(dialer, acceptor);
  EXPECT_EQ(status.code(), Code::rendezvous);
  EXPECT_NE(status.message().find("TLS"), std::string::npos) << status.message();
  EXPECT_FALSE(dialer.ready() || acceptor.ready());
}

TEST(Tls, LongDataAndManyRecords) {
  const auto tls = keyed();
  net::TlsStream dialer(*tls, true, kSecret), acceptor(*tls, false, kSecret);
  ASSERT_TRUE(meet(dialer, acceptor).ok());
  std::string data(1'000'003, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31 >> 3);
  ASSERT_TRUE(dialer.seal(std::as_bytes(std::span(data))).ok());
  std::string got;
  while (carry(dialer, acceptor)) {
    for (;;) {
      const std::string piece = text_of(acceptor, 70'000);
      if (piece.empty()) break;
      got += piece;
    }
  }
  EXPECT_TRUE(got == data);
}

TEST(Tls, WhatWasChangedOnTheWayIsAnError) {
  const auto tls = keyed();
  net::TlsStream dialer(*tls, true, kSecret), acceptor(*tls, false, kSecret);
  ASSERT_TRUE(meet(dialer, acceptor).ok());
  const std::string words(100, 'w');
  ASSERT_TRUE(dialer.seal(std::as_bytes(std::span(words))).ok());
  dialer.output()[50] ^= 1;
  carry(dialer, acceptor);
  std::byte into[100];
  for (int again = 0; again < 2; ++again) EXPECT_EQ(acceptor.open(into).status().code(), Code::system);
}

/// Certificates for one test, in a temporary folder.
class Certificates {
 public:
  /// NAME.pem and NAME.key, signed by `issuer` (itself where it has the same name); the key behind a
  /// passphrase.
  void make(const std::string& name, const std::string& issuer, const char* passphrase = nullptr) {
    EVP_PKEY* key = ::EVP_EC_gen("P-256");
    X509* certificate = ::X509_new();
    ::X509_set_version(certificate, 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate), ++serial_);
    ::X509_gmtime_adj(::X509_getm_notBefore(certificate), -60);
    ::X509_gmtime_adj(::X509_getm_notAfter(certificate), 3600);
    ::X509_set_pubkey(certificate, key);
    set_name(::X509_get_subject_name(certificate), name);
    set_name(::X509_get_issuer_name(certificate), issuer);
    if (issuer == name) {
      X509_EXTENSION* authority = ::X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "CA:TRUE");
      ::X509_add_ext(certificate, authority, -1);
      ::X509_EXTENSION_free(authority);
    }
    EVP_PKEY* signer = key;
    if (issuer != name) {
      FILE* file = std::fopen(path(issuer + ".key").c_str(), "r");
      signer = ::PEM_read_PrivateKey(file, nullptr, nullptr, nullptr);
      std::fclose(file);
    }
    ::X509_sign(certificate, signer, ::EVP_sha256());
    FILE* file = std::fopen(path(name + ".pem").c_str(), "w");
    ::PEM_write_X509(file, certificate);
    std::fclose(file);
    file = std::fopen(path(name + ".key").c_str(), "w");
    ::PEM_write_PrivateKey(file, key, passphrase ? ::EVP_aes_256_cbc() : nullptr, nullptr, 0, nullptr,
                           const_cast<char*>(passphrase));
    std::fclose(file);
    if (signer != key) ::EVP_PKEY_free(signer);
    ::X509_free(certificate);
    ::EVP_PKEY_free(key);
  }
  std::string path(const std::string& file) const { return folder_ / file; }
  std::shared_ptr<const net::Tls> of(const std::string& name, const std::string& authority) const {
    return net::Tls::with_certificates(path(name + ".pem"), path(name + ".key"), path(authority + ".pem"))
        .value_or_throw();
  }

 private:
  static void set_name(X509_NAME* at, const std::string& name) {
    ::X509_NAME_add_entry_by_txt(at, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()),
                                 -1, -1, 0);
  }
  test::TemporaryFolder folder_;
  long serial_ = 0;
};

TEST(Tls, CertificatesOfOneAuthority) {
  Certificates made;
  made.make("authority", "authority");
  made.make("one", "authority");
  made.make("two", "authority");
  const auto one = made.of("one", "authority"), two = made.of("two", "authority");
  net::TlsStream dialer(*one, true, kSecret), acceptor(*two, false, kSecret);
  const Status status = meet(dialer, acceptor);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_talk(dialer, acceptor);
  expect_talk(acceptor, dialer);
}

TEST(Tls, CertificatesOfAnotherAuthorityAreRefused) {
  Certificates made;
  for (const char* authority : {"authority", "another"}) made.make(authority, authority);
  made.make("one", "authority");
  made.make("two", "another");
  const auto one = made.of("one", "authority"), two = made.of("two", "authority");
  net::TlsStream dialer(*one, true, kSecret), acceptor(*two, false, kSecret);
  EXPECT_EQ(meet(dialer, acceptor).code(), Code::rendezvous);
  EXPECT_FALSE(dialer.ready() || acceptor.ready());
}

// A man in the middle with a valid certificate, who forwards the handshake but does not know the key.
TEST(Tls, ACertificateAloneIsNotEnough) {
  Certificates made;
  made.make("authority", "authority");
  made.make("one", "authority");
  const auto tls = made.of("one", "authority");
  net::TlsStream dialer(*tls, true, kSecret), acceptor(*tls, false, std::string(32, 'x'));
  EXPECT_EQ(meet(dialer, acceptor).code(), Code::rendezvous);
  EXPECT_FALSE(dialer.ready());
}

TEST(Tls, NobodyIsAskedForAPassphrase) {
  Certificates made;
  made.make("authority", "authority", "secret");
  const auto refused = net::Tls::with_certificates(made.path("authority.pem"), made.path("authority.key"),
                                                   made.path("authority.pem"))
                           .status();
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("KOLO_TLS_KEY"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("encrypted"), std::string::npos) << refused.message();
}

TEST(Tls, FilesThatAreMissingAreNamed) {
  Certificates made;
  made.make("authority", "authority");
  made.make("other", "other");
  const auto error = [&](const char* certificate, const char* key, const char* authority) {
    return net::Tls::with_certificates(made.path(certificate), made.path(key), made.path(authority))
        .status()
        .message();
  };
  EXPECT_NE(error("none.pem", "authority.key", "authority.pem").find("KOLO_TLS_CERT"), std::string::npos);
  EXPECT_NE(error("authority.pem", "none.key", "authority.pem").find("KOLO_TLS_KEY"), std::string::npos);
  EXPECT_NE(error("authority.pem", "other.key", "authority.pem").find("KOLO_TLS_KEY"), std::string::npos);
  EXPECT_NE(error("authority.pem", "authority.key", "none.pem").find("KOLO_TLS_CA"), std::string::npos);
}

}  // namespace
}  // namespace kolo
