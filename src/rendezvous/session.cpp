#include "rendezvous/session.hpp"

#include <algorithm>

namespace kolo {
namespace {

/// Longest time in which a connection must prove itself.
constexpr auto kProofTime = std::chrono::seconds(10);
/// An honest client sends a request only after the reply to the last, so one frame and what one read brings.
constexpr std::size_t kMaxInput = wire::kHeadBytes + wire::kMaxBodyBytes + (1u << 16);

}  // namespace

Session::Session(const std::string& key, TimePoint now)
    : proof_(key), output_(proof_.greeting()), wake_(now + kProofTime) {}

bool Session::receive(std::string_view bytes) {
  if (input_.size() + bytes.size() > (trusted_ ? kMaxInput : proof::kAnswerBytes)) return false;
  input_ += bytes;
  return true;
}

bool Session::advance(Table& table, TimePoint now, bool& changed) {
  if (!trusted_ && !hear_proof(now)) return false;
  for (;;) {
    if (waiting_ && !settle(table, now)) return true;
    // A client that does not take its replies gets no more of them.
    if (!trusted_ || output_.size() > wire::kMaxBodyBytes) return true;
    bool acted = false;
    if (!hear_request(table, now, changed, acted)) return false;
    if (!acted) return true;
  }
}

bool Session::hear_proof(TimePoint now) {
  if (input_.size() < proof::kAnswerBytes) return now < wake_;
  output_ += proof_.judge(input_, trusted_);
  input_.clear();
  wake_ = TimePoint::max();
  return trusted_;
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
    default: {  // get and wait: check_request() lets nothing else through
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

}  // namespace kolo
