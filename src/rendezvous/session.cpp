#include "rendezvous/session.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "rendezvous/channel.hpp"

namespace kolo::rendezvous {
namespace {

/// Longest time in which a connection must authenticate.
constexpr auto kProofTime = std::chrono::seconds(10);
/// An honest client sends a request only after the reply to the last one: one frame, and what one read
/// brings.
constexpr std::size_t kMaxInput = wire::kHeadBytes + wire::kMaxBodyBytes + (1u << 16);

}  // namespace

Session::Session(const net::Credentials& credentials, TimePoint now)
    : tls_settings_(credentials.tls),
      handshake_(net::Handshake::accept(store_identity(credentials))),
      wake_(now + kProofTime) {}

bool Session::receive(std::string_view bytes) {
  if (tls_) return decrypt(bytes);
  if (input_.size() + bytes.size() > (trusted_ ? kMaxInput : handshake_.wanted())) return false;
  input_ += bytes;
  return true;
}

bool Session::decrypt(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto space = tls_->space();
    const std::size_t size = std::min(space.size(), bytes.size());
    std::copy_n(bytes.begin(), size, reinterpret_cast<char*>(space.data()));
    tls_->filled(size);
    bytes.remove_prefix(size);
    std::byte plain[net::TlsStream::kRecordBytes];
    for (;;) {
      const auto opened = tls_->open(plain);
      if (!opened.ok()) {
        trouble_ = opened.status().message();
        output_ += std::exchange(tls_->output(), {});  // the reason, as a TLS alert
        return false;
      }
      if (opened.value() == 0) break;
      if (input_.size() + opened.value() > kMaxInput) return false;
      input_.append(reinterpret_cast<const char*>(plain), opened.value());
    }
  }
  output_ += std::exchange(tls_->output(), {});
  return true;
}

void Session::reply(wire::Message message) {
  const std::string bytes = wire::encode(message);
  if (!tls_) {
    output_ += bytes;
  } else if (tls_->seal(std::as_bytes(std::span(bytes))).ok()) {
    output_ += std::exchange(tls_->output(), {});
  }
}

bool Session::advance(Table& table, TimePoint now, bool& changed) {
  if (!trusted_ && !hear_proof(now)) return false;
  for (;;) {
    if (waiting_ && !settle(table, now)) return true;
    // A client that does not read its replies gets no more of them.
    if (!trusted_ || output_.size() > wire::kMaxBodyBytes) return true;
    bool acted = false;
    if (!hear_request(table, now, changed, acted)) return false;
    if (!acted) return true;
  }
}

bool Session::hear_proof(TimePoint now) {
  const Status heard = handshake_.feed(std::as_bytes(std::span(input_)));
  input_.clear();
  output_ += handshake_.take_output();
  if (!heard.ok()) {
    if (handshake_.began()) trouble_ = heard.message();
    return false;
  }
  if (!handshake_.done()) return now < wake_;
  trusted_ = true;
  wake_ = TimePoint::max();
  if (tls_settings_) tls_ = std::make_unique<net::TlsStream>(*tls_settings_, false, handshake_.secret());
  return true;
}

bool Session::hear_request(Table& table, TimePoint now, bool& changed, bool& acted) {
  if (input_.size() < wire::kHeadBytes) return true;
  const Result<std::size_t> bytes = wire::body_bytes(input_);
  if (!bytes.ok()) return false;
  if (input_.size() < wire::kHeadBytes + bytes.value()) return true;
  Result<wire::Message> message =
      wire::decode(std::string_view(input_).substr(wire::kHeadBytes, bytes.value()));
  if (!message.ok() || !wire::check_request(*message).ok()) return false;
  input_.erase(0, wire::kHeadBytes + bytes.value());
  request_ = std::move(*message);
  serve(table, now, changed);
  acted = true;
  return true;
}

void Session::serve(Table& table, TimePoint now, bool& changed) {
  using wire::Kind;
  std::vector<std::string>& items = request_.items;
  switch (request_.kind) {
    case Kind::set:
      table.set(items[0], std::move(items[1]));
      changed = true;
      return reply({});
    case Kind::add: {
      const Result<std::int64_t> sum = table.add(items[0], request_.number);
      if (!sum.ok()) return reply({Kind::wrong, 0, {sum.status().message()}});
      changed = true;
      return reply({Kind::done, sum.value(), {}});
    }
    case Kind::remove:
      table.remove(items[0]);
      return reply({});
    default: {  // get and wait: check_request() accepts no other kind
      const auto patience = std::chrono::nanoseconds(std::max<std::int64_t>(request_.number, 0));
      wake_ = patience < TimePoint::max() - now ? now + patience : TimePoint::max();
      awaited_ = items;
      waiting_ = true;
    }
  }
}

bool Session::settle(const Table& table, TimePoint now) {
  while (!awaited_.empty() && table.find(awaited_.back())) awaited_.pop_back();
  if (awaited_.empty()) awaited_ = table.missing(request_.items);  // some may have been removed meanwhile
  if (!awaited_.empty() && now < wake_) return false;

  waiting_ = false;
  wake_ = TimePoint::max();
  std::vector<std::string> missing = table.missing(request_.items);
  if (request_.kind == wire::Kind::wait) {
    reply({wire::Kind::done, 0, std::move(missing)});
  } else if (missing.empty()) {
    reply({wire::Kind::done, 0, {*table.find(request_.items[0])}});
  } else {
    reply({wire::Kind::late, 0, {}});
  }
  return true;
}

}  // namespace kolo::rendezvous
