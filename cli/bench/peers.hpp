// Peers (baselines): other libraries that run the same benchmark as kolo, each in programs of its own.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "bench/wire.hpp"

namespace kolo::bench {

/// A library that `--against` can name.
struct PeerKind {
  std::string_view name;       ///< "openmpi"
  std::string_view program;    ///< its program, in the folder of kolo's own program
  std::string_view starter;    ///< program that starts its ranks; in PATH, or with a "/" in the same folder;
                               ///< empty: kolo bench itself
  std::string_view packages;   ///< what it needs; empty: it comes with the benchmarks
  std::string_view transport;  ///< its only transport; empty: it can use any
  std::string_view memory;     ///< memory that it uses: "private" or "shared"
  // Options of the starter, and variables (NAME=value):
  std::string_view needed = {};     ///< for any start; {0} is the folder above the starter's
  std::string_view in_memory = {};  ///< its best settings for shared memory; empty: its defaults
  std::string_view over_tcp = {};   ///< its best settings for TCP
  std::string_view own_core = {};   ///< further ones for shared memory, if each rank has a core
};

std::span<const PeerKind> peer_kinds() noexcept;
/// Null if there is no peer of that name.
const PeerKind* find_peer_kind(std::string_view name) noexcept;

/// The running programs of one peer. They sleep between orders, and end when this object is destroyed or this
/// process dies. One thread.
class Peer {
 public:
  /// Starts `ranks` ranks over "shm" or "tcp", and waits until all have reported. Null, with a one-line
  /// reason, if the peer is not installed or does not start.
  static std::unique_ptr<Peer> start(const PeerKind& kind, int ranks, const std::string& transport,
                                     std::string& reason);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& name() const noexcept { return name_; }
  const std::string& library() const noexcept { return library_; }  ///< with its version
  const std::string& transport() const noexcept { return transport_; }
  const std::string& memory() const noexcept { return memory_; }
  const std::string& settings() const noexcept { return settings_; }  ///< that it was started with, if any

  /// One sample for each of its algorithms; none if it cannot run the case or has failed.
  std::vector<Sample> measure(const Order& order);
  /// Why it failed; empty if it has not.
  const std::string& failure() const noexcept { return failure_; }

 private:
  Peer() = default;
  bool meet(int listener, int ranks, std::string& reason);
  /// True if one of its programs has ended unexpectedly.
  bool ended();
  std::string last_words() const;
  void stop();

  std::string name_;
  std::string library_;
  std::string transport_;
  std::string memory_;
  std::string settings_;
  std::string failure_;
  std::vector<Line> lines_;  // by rank
  std::vector<pid_t> children_;
  UniqueFd output_;  // the programs' output
};

}  // namespace kolo::bench
