// The measurements of kolo doctor, of hosts and the connections between them, and how a rank makes them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cores.hpp"
#include "kolo/store.hpp"

namespace kolo::doctor {

/// What a rank reports about itself and its host.
struct Facts {
  int rank = 0;
  std::string host;          ///< its name
  std::string place;         ///< equal for ranks that share a kernel and a network
  std::string version;       ///< of kolo
  std::string key;           ///< a fingerprint of the job's key; empty: there is no key
  std::string interface;     ///< value of KOLO_INTERFACE; empty: kolo chooses
  std::string cores;         ///< cores that this rank may use: "0-3,8"; "0-3,8/2.5" with a quota of 2.5 cores
  std::uint64_t files = 0;   ///< limit of open descriptors
  std::uint64_t locked = 0;  ///< limit of locked memory, bytes
  std::string memfd;         ///< why shared memory is not available; empty: it is
  std::string direct_read;   ///< why ranks cannot read each other's memory (CMA); empty: they can
  std::string huge_pages;    ///< why shared memory gets no huge pages; empty: it does
  std::vector<std::string> gpus;  ///< names of those that this rank may use
  std::string no_gpus;            ///< why there are none; empty: there are some
  std::string nccl;               ///< its version, where there are GPUs; empty: it cannot be loaded
  std::string nccl_from;          ///< the file that it was loaded from, or why it cannot be loaded
};

/// The network interface of a connection.
struct Card {
  std::string name;     ///< "eth0"
  std::string address;  ///< this rank's
  std::string family;   ///< "IPv4", "IPv6"
  int mtu = 0;
  bool loopback = false;
};

/// One rank's attempt to reach another at its real listening port, with the job's key.
struct Dial {
  int from = 0, to = 0;
  std::string outcome;  ///< "ok", "refused", "silent", "no route", "failed"
  std::string why;      ///< the reason if it is not ok
  Card card;            ///< of `from`, if it is ok
};

/// What two ranks measured between them.
struct Pair {
  int from = 0, to = 0;
  std::string transport;
  std::string error;  ///< in words; empty: measured
  double latency_us = 0;
  double there = 0, back = 0;  ///< bytes a second
  double clock_s = 0;          ///< how far the clock of `to` is ahead of that of `from`
};

struct Examination {
  int size = 0;  ///< of the job
  std::string store;
  std::vector<std::string> hosts;  ///< of each rank, as the user named them; empty: the launcher knows
  std::vector<Facts> ranks;        ///< the ranks that took part
  std::vector<Dial> dials;
  std::vector<Pair> pairs;

  const Facts& of(int rank) const;
  /// The user's name for the host, else the host's own; its address if several hosts have the same name.
  std::string host_name(int rank) const;
  /// host_name(), or "rank 2 on a" if several ranks of the host take part.
  std::string name(int rank) const;
  /// The first rank of each host.
  std::vector<int> leaders() const;
  /// The ranks on the host of `rank`, including `rank`.
  std::vector<int> neighbours(int rank) const;
  /// The cores that the ranks on the host of `rank` may use together.
  Cores cores(int rank) const;
  /// The ranks on the host of `rank` that are oversubscribed, by the cores that each may use.
  std::vector<int> oversubscribed(int rank) const;
  /// The network interface by which the rank reached another host; its name is empty if it reached none.
  Card card_to_others(int rank) const;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Facts, rank, host, place, version, key, interface, cores, files, locked,
                                   memfd, direct_read, huge_pages, gpus, no_gpus, nccl, nccl_from)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Card, name, address, family, mtu, loopback)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Dial, from, to, outcome, why, card)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Pair, from, to, transport, error, latency_us, there, back, clock_s)

// What a rank does in an examination: each function returns a part of it.

/// Facts about this rank and its host; `place`: its HostMark::name(). Tests shared memory and reads of
/// another process's memory.
Facts gather_facts(int rank, const std::string& place);

/// The network interface of a connected socket of this process; its name is empty if there is none.
Card card_of(int socket);

/// Collective over `ranks`, which share `store`: each rank dials every other rank at its real listening port,
/// with the transport of a job. In each round every rank dials once and is dialled once, so an address that
/// does not answer costs a round only its timeout. Returns the dials of rank `me`. `place`: as
/// gather_facts().
std::vector<Dial> dial_all(Store& store, const std::vector<int>& ranks, int me, const std::string& place);

/// Called by both ranks of a pair, which share `store`: latency, bandwidth and clocks of a communicator of
/// the two. Only rank `from` gets the measurements; each rank gets its own error.
Pair measure_pair(std::shared_ptr<Store> store, int from, int to, int me);

}  // namespace kolo::doctor
