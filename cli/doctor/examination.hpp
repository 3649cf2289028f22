// What kolo doctor has found out about a job's hosts and the ways between them: facts, without a judgement.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cores.hpp"

namespace kolo::doctor {

/// What a rank tells of itself and its host.
struct Facts {
  int rank = 0;
  std::string host;          ///< its name
  std::string place;         ///< equal for ranks that share a kernel and a network
  std::string version;       ///< of kolo
  std::string key;           ///< a fingerprint of the job's key; empty: there is no key
  std::string interface;     ///< what KOLO_INTERFACE says; empty: kolo chooses
  std::string cores;         ///< that this rank may use: "0-3,8"; "0-3,8/2.5" with a quota of so many
  std::uint64_t files = 0;   ///< limit of open descriptors
  std::uint64_t locked = 0;  ///< limit of locked memory, bytes
  std::string memfd;         ///< why there is no shared memory; empty: there is
  std::string direct_read;   ///< why ranks cannot read each other's memory; empty: they can
  std::string huge_pages;    ///< why shared memory gets no huge pages; empty: it does
};

/// The network card of a connection.
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
  std::string why;      ///< in words, where it is not ok
  Card card;            ///< of `from`, where it is ok
};

/// What two ranks measured between them.
struct Pair {
  int from = 0, to = 0;
  std::string transport;
  std::string error;  ///< in words; empty: measured
  double latency_us = 0;
  double there = 0, back = 0;  ///< bytes a second
  double clock_s = 0;          ///< how far the clock of `to` is ahead
};

struct Examination {
  int size = 0;  ///< of the job
  std::string store;
  std::vector<Facts> ranks;  ///< those that came
  std::vector<Dial> dials;
  std::vector<Pair> pairs;

  const Facts& of(int rank) const;
  /// The host's name; its address where several hosts have the same name.
  std::string host_name(int rank) const;
  /// That, or "rank 2 on a" where several ranks are examined there.
  std::string name(int rank) const;
  /// The first rank of each host.
  std::vector<int> leaders() const;
  /// Those on the same host, itself included.
  std::vector<int> neighbours(int rank) const;
  /// That those may use together.
  Cores cores(int rank) const;
  /// Those of them that share their cores with others, by which cores each may use.
  std::vector<int> crowded(int rank) const;
  /// The card by which a rank reached another host; one without a name where it reached none.
  Card card_to_others(int rank) const;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Facts, rank, host, place, version, key, interface, cores, files, locked,
                                   memfd, direct_read, huge_pages)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Card, name, address, family, mtu, loopback)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Dial, from, to, outcome, why, card)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Pair, from, to, transport, error, latency_us, there, back, clock_s)

}  // namespace kolo::doctor
