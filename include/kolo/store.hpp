// Store: the small key-value service through which ranks find each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kolo/error.hpp"

namespace kolo {

/// Keys and values are byte strings (keys up to 1 KiB, values up to 1 MiB). Every method is thread-safe and
/// throws RendezvousError when the store cannot be reached, TimeoutError where it says so.
class Store {
 public:
  virtual ~Store() = default;

  /// Overwrites.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Blocks until the key exists; TimeoutError that names the key after `timeout`.
  virtual std::string get(const std::string& key, std::chrono::nanoseconds timeout) = 0;
  /// Adds to a decimal number (absent counts as 0) and returns the sum; atomic between ranks.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// Blocks until all keys exist or `timeout` has passed; returns the keys that are still missing.
  virtual std::vector<std::string> wait(const std::vector<std::string>& keys,
                                        std::chrono::nanoseconds timeout) = 0;
  /// Removes a key if it exists.
  virtual void remove(const std::string& key) = 0;
  /// For messages: "tcp://10.0.0.1:29500", "file:///tmp/job", "memory".
  virtual std::string describe() const = 0;
  /// The name or address by which all ranks know the store's host; empty if it is not on the network. It
  /// shows a rank which interface leads to the other ranks.
  virtual std::string host() const { return {}; }
};

/// A store for ranks that are threads of one process.
[[nodiscard]] std::shared_ptr<Store> make_memory_store();

/// A store in a file that all ranks can reach (a shared file system, or one host). The file is created when
/// it does not exist, and stays.
std::shared_ptr<Store> make_file_store(const std::string& path);

/// The server side of a TCP store; it serves from a thread of its own until destroyed. Port 0 picks a free
/// one.
class TcpStoreServer {
 public:
  virtual ~TcpStoreServer() = default;
  /// The port on which it listens.
  virtual std::uint16_t port() const = 0;
};

/// Binds `host` (empty: all interfaces). Every connection must prove that it knows `key` before anything else
/// from it is accepted (HMAC-SHA256 challenge and response). An empty `key` is InvalidArgumentError, except
/// on loopback: there each connection must be of this process's user. With KOLO_INSECURE=1 any process may
/// connect without a key. Throws RendezvousError when it cannot bind.
[[nodiscard]] std::unique_ptr<TcpStoreServer> serve_tcp_store(const std::string& host, std::uint16_t port,
                                                              const std::string& key);

/// A client; retries until the server answers or `timeout` has passed (RendezvousError that names the
/// address). `key`: as above.
std::shared_ptr<Store> connect_tcp_store(const std::string& host, std::uint16_t port, const std::string& key,
                                         std::chrono::nanoseconds timeout);

/// A view of `store` in which every key is prefixed, so that jobs or communicators do not see each other's
/// keys.
[[nodiscard]] std::shared_ptr<Store> make_prefix_store(const std::string& prefix,
                                                       std::shared_ptr<Store> store);

/// The rank of this process in its job, from the environment that its launcher has set.
struct Launch {
  int rank = 0;          ///< this process's number in the job
  int size = 1;          ///< processes of the job
  int local_rank = 0;    ///< this process's number on its host
  int local_size = 1;    ///< processes of the job on this host
  std::string launcher;  ///< "torchrun", "Open MPI", "Slurm", "MPICH", or "none" for a single process.
};

/// Reads, in this order: RANK/WORLD_SIZE (torchrun, kolo run), Open MPI's, MPICH's (PMI) and Slurm's
/// variables; rank 0 of 1 where none is set. Throws InvalidArgumentError that names the variable when one is
/// missing or senseless.
Launch launch_from_environment();

/// The job's store as the environment says: KOLO_STORE, else MASTER_ADDR and MASTER_PORT, where rank 0 serves
/// unless the launcher does; an in-memory store for a single process. The server lives as long as the
/// process. A rank's n-th call returns a view in which it meets only the n-th calls of the other ranks.
/// `key`: the job's, empty for that of the environment; the first call's counts.
std::shared_ptr<Store> store_from_environment(const Launch& launch, std::chrono::nanoseconds timeout,
                                              const std::string& key = {});

/// Whether the job's store stays when ranks end: a launcher (`kolo run`), another process or a file holds it.
/// False if rank 0 serves it. Dials nothing. Throws InvalidArgumentError as store_from_environment().
bool store_outlives_ranks(const Launch& launch);

}  // namespace kolo
