#include "net/handshake.hpp"

#include <utility>

#include "net/hmac.hpp"
#include "net/random.hpp"

namespace kolo::net {
namespace {

constexpr std::size_t kNonceBytes = 32;
// "kolo", the kind of message, the version of the handshake. Every version begins each message like this, and
// each refusal has the reason in the next byte. So other versions can be told from strangers.
constexpr std::size_t kMagicBytes = 8;
constexpr std::string_view kHello = "koloHEL2";
constexpr std::string_view kChallenge = "koloCHA2";
constexpr std::string_view kProof = "koloPRO2";
constexpr std::string_view kWelcome = "koloWEL2";
constexpr std::string_view kRefusal = "koloREF2";
// magic, protocol, encryption, own rank, peer's rank, digest of the job, nonce
constexpr std::size_t kProtocolAt = kMagicBytes;
constexpr std::size_t kEncryptionAt = kProtocolAt + 4;
constexpr std::size_t kOwnRankAt = kEncryptionAt + 1;
constexpr std::size_t kPeerRankAt = kOwnRankAt + 4;
constexpr std::size_t kJobAt = kPeerRankAt + 4;
constexpr std::size_t kIntroductionBytes = kJobAt + kMacBytes + kNonceBytes;
constexpr std::size_t kConfirmationBytes = kMagicBytes + kMacBytes;
static_assert(kIntroductionBytes + kMacBytes <= Handshake::kMostBytes);

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

std::string words_for(Encryption encryption) {
  switch (encryption) {
    case Encryption::none:
      return "does not encrypt (KOLO_TLS=0)";
    case Encryption::key:
      return "encrypts with the job's key (KOLO_TLS=1)";
    case Encryption::certificates:
      return "encrypts with certificates (KOLO_TLS=1, KOLO_TLS_CERT)";
  }
  return "encrypts in a way that is unknown here";
}

constexpr const char* kSameKey =
    "Options::key, KOLO_KEY or the file of KOLO_KEY_FILE must be the same on all ranks, and set on all or on "
    "none";

constexpr const char* kOtherVersion =
    " because it is another version of kolo; all ranks need the same version";
/// By Reason: how the sentence "it refused this rank" goes on.
constexpr const char* kRefusals[] = {
    " for a reason that is unknown here",
    kOtherVersion,
    kOtherVersion,
    " because it belongs to another job",
    "'s key: ",  // and kSameKey
    " because it wants another kind of encryption; KOLO_TLS and KOLO_TLS_CERT must be set on all ranks or on "
    "none",
    " because it is another rank than the one wanted",
    " because it belongs to another user; without a key only ranks of one user meet: set KOLO_KEY",
};

}  // namespace

Handshake::Handshake(const Identity& me, int peer, bool dialer) : me_(me), peer_(peer), dialer_(dialer) {}

Handshake Handshake::dial(const Identity& me, int peer) {
  Handshake handshake(me, peer, true);
  handshake.say(handshake.introduction(kHello), false);
  handshake.expect(kIntroductionBytes + kMacBytes);
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

std::string Handshake::secret() const {
  return hmac(me_.key, "kolo secret" + transcript_);
}

Status Handshake::feed(std::span<const std::byte> bytes) {
  if (bytes.size() > wanted()) return Status(Code::rendezvous, "more bytes than the handshake has");
  incoming_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // Check at once: messages of other versions may be shorter than the expected one.
  if (Status status = check_magic(); !status.ok()) return status;
  if (wanted() > 0) return Status();
  if (done_) return Status(Code::rendezvous, "bytes after the handshake");
  if (!dialer_ && peer_ < 0) return on_hello();
  if (dialer_ && !answered_) return on_challenge();
  return on_confirmation();
}

Status Handshake::on_hello() {
  if (Status status = check_introduction(); !status.ok()) return status;
  transcript_ += incoming_;
  answered_ = true;
  say(introduction(kChallenge), true);
  expect(kConfirmationBytes);
  return Status();
}

Status Handshake::on_challenge() {
  if (Status status = check_introduction(); !status.ok()) return status;
  if (Status status = check_proof(); !status.ok()) return status;
  answered_ = true;
  say(std::string(kProof), true);
  expect(kConfirmationBytes);
  return Status();
}

Status Handshake::on_confirmation() {
  if (Status status = check_proof(); !status.ok()) return status;
  if (!dialer_) say(std::string(kWelcome), true);
  done_ = true;
  expect(0);
  return Status();
}

std::string Handshake::introduction(std::string_view magic) {
  std::string nonce(kNonceBytes, '\0');
  fill_random(std::as_writable_bytes(std::span(nonce)));
  return std::string(magic) + encode(me_.protocol) + static_cast<char>(me_.encryption) +
         encode(static_cast<std::uint32_t>(me_.rank)) + encode(static_cast<std::uint32_t>(peer_)) +
         job_digest(me_.job) + nonce;
}

std::string_view Handshake::awaited_magic() const {
  if (dialer_) return answered_ ? kWelcome : kChallenge;
  return answered_ ? kProof : kHello;
}

Status Handshake::check_magic() {
  const std::string_view message = incoming_;
  if (message.size() < kMagicBytes) return Status();
  const std::string_view magic = message.substr(0, kMagicBytes);
  if (magic.substr(0, 4) != kHello.substr(0, 4))
    return Status(Code::rendezvous, "something that is not kolo");
  began_ = true;
  if (magic == awaited_magic()) return Status();
  if (magic.back() != kHello.back()) {
    const char theirs = magic.back();
    return refuse(Reason::version, std::string("another version of kolo: its handshake is version ") +
                                       (theirs >= '0' && theirs <= '9' ? theirs : '?') + ", this one's " +
                                       kHello.back() + "; all ranks need the same version");
  }
  if (magic != kRefusal) return Status(Code::rendezvous, "a message of the handshake out of turn");
  if (message.size() == kMagicBytes) return Status();  // the reason is not here yet
  const auto reason = static_cast<std::size_t>(static_cast<unsigned char>(message[kMagicBytes]));
  const bool is_known = reason < std::size(kRefusals);
  const bool is_key = reason == static_cast<std::size_t>(Reason::key);
  return Status(Code::rendezvous, std::string("it refused this rank") + kRefusals[is_known ? reason : 0] +
                                      (is_key ? kSameKey : ""));
}

Status Handshake::check_introduction() {
  const std::string_view message = incoming_;
  const std::uint32_t protocol = decode(message.substr(kProtocolAt));
  const auto encryption = static_cast<Encryption>(message[kEncryptionAt]);
  const std::uint32_t theirs = decode(message.substr(kOwnRankAt));
  const std::uint32_t mine = decode(message.substr(kPeerRankAt));
  if (protocol != me_.protocol) {
    return refuse(Reason::protocol, "another version of kolo: it speaks version " + std::to_string(protocol) +
                                        ", this one " + std::to_string(me_.protocol) +
                                        "; all ranks need the same version");
  }
  if (message.substr(kJobAt, kMacBytes) != job_digest(me_.job))
    return refuse(Reason::job, "a rank of another job");
  if (mine != static_cast<std::uint32_t>(me_.rank))
    return refuse(Reason::rank, "a rank that looks for another");
  if (theirs > 0x7fffffff) return refuse(Reason::rank, "a rank that cannot be");
  if (dialer_ && static_cast<int>(theirs) != peer_)
    return refuse(Reason::rank, "another rank than the one wanted");
  peer_ = static_cast<int>(theirs);  // from here on errors can name the rank
  if (encryption != me_.encryption) {
    return refuse(Reason::encryption, "it " + words_for(encryption) + " and this rank " +
                                          words_for(me_.encryption) +
                                          "; KOLO_TLS and KOLO_TLS_CERT must be set on all ranks or on none");
  }
  return Status();
}

Status Handshake::check_proof() {
  const std::string_view message = incoming_;
  const std::string_view text = message.substr(0, message.size() - kMacBytes);
  const std::string expected = hmac(me_.key, transcript_ + std::string(text));
  if (!same_secret(expected, message.substr(text.size()))) {
    return refuse(Reason::key, std::string("it has another key: ") + kSameKey);
  }
  transcript_ += incoming_;
  return Status();
}

std::string Handshake::refusal(Reason reason, std::size_t bytes) {
  std::string message = std::string(kRefusal) + static_cast<char>(reason);
  message.resize(bytes);
  return message;
}

std::string Handshake::refusal_of_user() {
  return refusal(Reason::user, kIntroductionBytes + kMacBytes);
}

Status Handshake::refuse(Reason reason, const std::string& why) {
  // As long as the message that the other side expects.
  const bool early = !answered_;
  const std::size_t bytes = !dialer_ && early ? kIntroductionBytes + kMacBytes : kConfirmationBytes;
  if (!(dialer_ && answered_)) outgoing_ = refusal(reason, bytes);  // none is expected after welcome
  return Status(Code::rendezvous, why);
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

}  // namespace kolo::net
