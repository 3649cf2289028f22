// Peers: other libraries that run the same benchmark beside kolo, each in programs of its own.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/wire.hpp"

namespace kolo::bench {

/// A library that `--against` can name.
struct PeerKind {
  std::string_view name;       ///< "openmpi"
  std::string_view program;    ///< beside kolo's own program
  std::string_view starter;    ///< what starts its ranks, in PATH; empty: kolo bench itself
  std::string_view packages;   ///< what to install where it is missing; empty: it comes with the benchmarks
  std::string_view transport;  ///< the only one it has; empty: what it is told
  std::string_view memory;     ///< that it works on: "private" or "shared"
};

std::span<const PeerKind> peer_kinds() noexcept;
/// Null when there is none of that name.
const PeerKind* find_peer_kind(std::string_view name) noexcept;

/// The running programs of one peer. They wait asleep between orders, and end when this object does or when
/// this process dies. One thread.
class Peer {
 public:
  /// Starts `ranks` ranks over "shm" or "tcp", and waits until all have reported. Null, with the reason in
  /// one line, when the peer is not installed or does not start.
  static std::unique_ptr<Peer> start(const PeerKind& kind, int ranks, const std::string& transport,
                                     std::string& reason);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& name() const noexcept { return name_; }
  const std::string& library() const noexcept { return library_; }  ///< with its version
  const std::string& transport() const noexcept { return transport_; }
  const std::string& memory() const noexcept { return memory_; }

  /// One sample for each of its algorithms; none when it cannot do the case or has failed.
  std::vector<Sample> measure(const Order& order);
  /// Why it failed; empty while it has not.
  const std::string& failure() const noexcept { return failure_; }

 private:
  Peer() = default;
  bool meet(int listener, int ranks, std::string& reason);
  /// True when one of its programs has ended, which none should.
  bool ended();
  std::string last_words() const;
  void stop();

  std::string name_;
  std::string library_;
  std::string transport_;
  std::string memory_;
  std::string failure_;
  std::vector<Line> lines_;  // by rank
  std::vector<pid_t> children_;
  int output_ = -1;  // what the programs print
};

}  // namespace kolo::bench
