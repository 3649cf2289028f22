// Properties of a store's server for any received bytes. Shared by the fuzzers and the seeded unit tests.
#pragma once

#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/channel.hpp"
#include "rendezvous/session.hpp"
#include "rendezvous/wire.hpp"

namespace kolo::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

/// A message that can be read is written back byte for byte.
inline void wire_message(std::string_view bytes) {
  if (const auto size = rendezvous::wire::body_bytes(bytes); size.ok())
    require(size.value() <= rendezvous::wire::kMaxBodyBytes);
  const auto message = rendezvous::wire::decode(bytes);
  if (!message.ok()) return;
  require(rendezvous::wire::encode(message.value()).substr(rendezvous::wire::kHeadBytes) == bytes);
}

/// Runs the handshake of a client with `key`, at most `step` bytes at a time; returns whether it was
/// accepted.
inline bool prove(rendezvous::Session& session, rendezvous::Table& table, const std::string& key,
                  std::size_t step = 1000) {
  const auto now = Clock::now();
  bool changed = false;
  net::Handshake client = net::Handshake::dial(rendezvous::store_identity({key}), 0);
  while (!client.done()) {
    const std::string words = client.take_output();
    if (words.empty()) return false;
    for (std::size_t at = 0; at < words.size(); at += step) {
      if (!session.receive(std::string_view(words).substr(at, step))) return false;
      if (!session.advance(table, now, changed)) return false;
    }
    const std::string answer = std::exchange(session.output(), {});
    if (!client.feed(std::as_bytes(std::span(answer))).ok()) return false;
  }
  return session.trusted() && !changed;
}

/// The first byte selects an unauthenticated or an authenticated client, and how the rest is cut into reads.
/// Memory stays bounded; an unauthenticated client never accesses the table.
inline void session(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto choice = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  const auto now = Clock::now();
  rendezvous::Table table;
  bool changed = false;
  rendezvous::Session session({"key"}, now);
  const bool honest = (choice & 1) != 0;
  if (honest) require(prove(session, table, "key"));
  const std::size_t cut = 1 + (choice >> 1);
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, cut);
    bytes.remove_prefix(piece.size());
    if (!session.receive(piece)) return;
    const bool open = session.advance(table, now, changed);
    require(honest || (!session.trusted() && !changed));
    require(session.output().size() <= 3 * rendezvous::wire::kMaxBodyBytes);
    if (!open) return;
    if (session.output().size() > rendezvous::wire::kMaxBodyBytes) session.output().clear();
  }
}

}  // namespace kolo::fuzz
