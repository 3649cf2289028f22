// Config: all environment variables of kolo, read once.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "kolo/wire.hpp"

namespace kolo {

/// Ports from `first` to `last`; 0 to 0: any that the system chooses.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

/// The settings of this process. docs/running.md lists them for users; keep the two together.
struct Config {
  std::string log_level = "warn";    ///< KOLO_LOG: trace, debug, info, warn, error, off.
  std::chrono::nanoseconds timeout;  ///< KOLO_TIMEOUT, seconds (300): the default of Options::timeout.
  std::chrono::nanoseconds
      heartbeat;  ///< KOLO_HEARTBEAT, seconds (5): a peer silent so long is lost (at least 0.25); 0: never.
  std::string transports;  ///< KOLO_TRANSPORTS: the allowed ones, best first; empty: all, fastest first.
  std::string algorithm;   ///< KOLO_ALGORITHM: used if the caller names none.
  std::string table;       ///< KOLO_TABLE: the tuning table's file; default ~/.config/kolo/table; "none".
  std::uint64_t segment_bytes = 1u << 19;  ///< KOLO_SEGMENT_BYTES: longest single message of the engine.
  Wire wire = Wire::native;                ///< KOLO_WIRE: the default of CallOptions::wire.
  std::string interface;                   ///< KOLO_INTERFACE: interface, address or subnet that tcp binds.
  PortRange ports;                         ///< KOLO_PORTS: where ranks, and a store at no port, listen.
  std::string store;                       ///< KOLO_STORE: "tcp://host:port" or "file:///path", see Store.
  bool store_served = false;               ///< KOLO_STORE_SERVED=1: a process other than rank 0 serves it.
  std::string join = "never";   ///< KOLO_JOIN: never, auto or always: whether create() joins a group.
  bool insecure = false;        ///< KOLO_INSECURE=1: other hosts may connect although there is no key.
  bool tls = false;             ///< KOLO_TLS=1: all connections between hosts and processes are encrypted.
  std::string tls_certificate;  ///< KOLO_TLS_CERT: this rank's certificate, then those between it and the CA.
  std::string tls_private_key;  ///< KOLO_TLS_KEY: its private key.
  std::string tls_authority;    ///< KOLO_TLS_CA: the certificate that signed those of all ranks.
  std::string metrics;          ///< KOLO_METRICS: port, or address:port, of the metrics; empty: none.
  std::string timeline;         ///< KOLO_TIMELINE: the folder for the timelines of all ranks; empty: none.
  std::string gpu = "auto";     ///< KOLO_GPU: auto, nccl or staged: what calls on devices' memory run on.
  std::string nccl_library;     ///< KOLO_NCCL_LIBRARY: NCCL's file; empty: it is looked for.
  std::int64_t spin_us = -1;    ///< KOLO_SPIN_US: spin before sleeping; -1: by cores and ranks.
};

/// Thread-safe; the first call reads the environment. An invalid value throws InvalidArgumentError that names
/// the variable.
const Config& config();

/// The job's secret: KOLO_KEY, or the contents of KOLO_KEY_FILE. Read once, as config() is, but separately: a
/// launcher makes a key of its own and must not fail if the file is missing.
const std::string& job_key();

}  // namespace kolo
