#include "rendezvous/meeting.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>

#include "base/log.hpp"
#include "net/hmac.hpp"
#include "net/socket.hpp"
#include "rendezvous/slurm.hpp"
#include "rendezvous/tcp_server.hpp"

namespace kolo {
namespace {

/// Number of ports that a server tries if its exact port is not prescribed.
constexpr int kPortRange = 16;

Result<std::uint16_t> parse_port(const std::string& name, const std::string& text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: \"{}\" is not a port from 1 to 65535", name, text));
  }
  return static_cast<std::uint16_t>(port);
}

/// A port that every rank of the job computes alike. It is below Linux's range for outgoing connections, with
/// room for kPortRange ports.
std::uint16_t job_port(const std::string& job) {
  const std::string hash = net::hmac("", "port " + job);
  const unsigned bits = static_cast<unsigned char>(hash[0]) | static_cast<unsigned char>(hash[1]) << 8;
  return static_cast<std::uint16_t>(20'000 + bits % 12'000);
}

/// MPICH gives its ranks no name for the job, only a socket to the proxy that started all ranks of one host.
std::optional<std::string> mpich_proxy(const rendezvous::Lookup& lookup) {
  const auto text = lookup("PMI_FD");
  int fd = -1;
  ucred proxy{};
  socklen_t length = sizeof(proxy);
  if (text) std::from_chars(text->data(), text->data() + text->size(), fd);
  if (fd < 0 || ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &proxy, &length) != 0 || proxy.pid <= 0) {
    return std::nullopt;
  }
  return fmt::format("mpich proxy {}", proxy.pid);
}

/// Identifies this job among the jobs of this host or cluster; nullopt if the launcher gives no name.
std::optional<std::string> job_name(const Launch& launch, const rendezvous::Lookup& lookup) {
  if (launch.launcher == "Open MPI") {
    for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
      if (const auto value = lookup(name)) return "open mpi " + *value;
    }
  }
  // Checked before MPICH's proxy: under srun --mpi=pmi2 every host has a proxy of its own.
  const auto job = lookup("SLURM_JOB_ID");
  if (job && rendezvous::in_slurm_step(lookup))
    return fmt::format("slurm {}.{}", *job, *lookup("SLURM_STEP_ID"));
  if (launch.launcher == "MPICH") return mpich_proxy(lookup);
  return std::nullopt;
}

/// The host of rank 0, if the ranks are on several hosts and no setting names it.
std::optional<std::string> first_host(const rendezvous::Lookup& lookup) {
  if (!rendezvous::in_slurm_step(lookup)) return std::nullopt;
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (const auto list = lookup(name)) {
      if (auto host = rendezvous::first_slurm_host(*list)) return host;
    }
  }
  return lookup("SLURM_LAUNCH_NODE_IPADDR");
}

/// Where loopback is down, find_store() says so.
std::string loopback_or_default() {
  auto host = net::loopback_host();
  return host.ok() ? *host : "127.0.0.1";
}

/// From MASTER_ADDR and MASTER_PORT.
Status plan_master(const rendezvous::Lookup& lookup, rendezvous::Meeting& meeting) {
  const auto port_text = lookup("MASTER_PORT");
  if (!port_text) return Status(Code::invalid_argument, "MASTER_PORT is not set although MASTER_ADDR is");
  const auto port = parse_port("MASTER_PORT", *port_text);
  if (!port.ok()) return port.status();
  meeting.address.host = net::without_brackets(*lookup("MASTER_ADDR"));
  meeting.address.port = port.value();
  if (meeting.address.host.empty()) return Status(Code::invalid_argument, "MASTER_ADDR is empty");
  // Launchers name this host by its network address, even if all ranks are on it.
  if (meeting.one_host && !meeting.address.credentials.allow(false, "").ok())
    meeting.address.host = loopback_or_default();
  if (lookup("TORCHELASTIC_USE_AGENT_STORE") != "True") return {};

  // torchrun's own store already listens on MASTER_PORT. A restarted job counts as another job.
  if (port.value() > 65535 - kPortRange) {
    return Status(Code::invalid_argument,
                  fmt::format("MASTER_PORT={} leaves kolo no port after torchrun's; choose one up to {}",
                              port.value(), 65535 - kPortRange));
  }
  meeting.address.port = static_cast<std::uint16_t>(port.value() + 1);
  meeting.address.ports = kPortRange;
  meeting.address.credentials.job =
      fmt::format("torchrun {} {} {}", lookup("TORCHELASTIC_RUN_ID").value_or(""), *port_text,
                  lookup("TORCHELASTIC_RESTART_COUNT").value_or(""));
  return {};
}

/// Without KOLO_STORE and MASTER_ADDR: from the launcher's own variables.
Status plan_from_launcher(const Launch& launch, const rendezvous::Lookup& lookup,
                          rendezvous::Meeting& meeting) {
  const auto host = meeting.one_host ? std::optional(loopback_or_default()) : first_host(lookup);
  const auto job = job_name(launch, lookup);
  if (!host || !job) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} does not say where rank {} of {} meets the other ranks: set MASTER_ADDR to the host "
                    "of rank 0 and MASTER_PORT to a free port there, the same for all ranks",
                    launch.launcher == "none" ? "the environment" : launch.launcher, launch.rank,
                    launch.size));
  }
  meeting.address.credentials.job = fmt::format("{} of user {}", *job, ::getuid());
  meeting.address.host = *host;
  meeting.address.port = job_port(meeting.address.credentials.job);
  meeting.address.ports = kPortRange;
  return {};
}

/// The addresses that rank 0 binds, best first: the ones that the other ranks dial.
Result<std::vector<net::SocketAddress>> addresses_to_serve(const rendezvous::Meeting& meeting,
                                                           std::uint16_t port) {
  const std::string& host = meeting.address.host;
  Result<std::vector<net::SocketAddress>> told = net::resolve(host, port);
  if (!told.ok()) return told;
  const bool exactly = meeting.one_host || host == "localhost" || net::is_numeric_host(host);
  if (exactly) return told;
  // Debian's /etc/hosts gives the host's own name as 127.0.1.1, where no other host could reach us.
  std::erase_if(*told, [](const net::SocketAddress& address) { return address.is_loopback(); });
  return told;
}

/// A server and the host name under which its own process reaches it; or this job's store, if another process
/// already serves it at the same place.
struct Serving {
  std::unique_ptr<TcpStoreServer> server = nullptr;
  std::string host = {};
  std::shared_ptr<Store> taken = nullptr;
};

Result<Serving> serve_at(const rendezvous::Meeting& meeting, std::uint16_t port) {
  const std::string& host = meeting.address.host;
  const auto addresses = addresses_to_serve(meeting, port);
  if (!addresses.ok()) return addresses.status();
  Status last;
  bool ours = false;
  for (const net::SocketAddress& address : addresses.value()) {
    auto server = rendezvous::serve_store(address, meeting.address.credentials);
    if (server.ok()) return Serving{.server = std::move(*server), .host = host};
    last = server.status();
    if (last.code() == Code::invalid_argument) return last;
    ours = ours || net::is_taken(last);
  }
  if (ours) return last;
  // The name belongs to no interface of this host, as behind address translation: serve on all interfaces.
  log().info("{} is no address of this host; serving the store on all interfaces, port {}", host, port);
  const auto everywhere = net::resolve("", port);
  if (!everywhere.ok()) return everywhere.status();
  for (const net::SocketAddress& address : everywhere.value()) {
    auto server = rendezvous::serve_store(address, meeting.address.credentials);
    if (server.ok()) return Serving{.server = std::move(*server), .host = loopback_or_default()};
    last = server.status();
  }
  return last;
}

Result<Serving> serve(const rendezvous::Meeting& meeting, std::chrono::nanoseconds timeout) {
  constexpr std::chrono::seconds kAnswerTime{1};  // for a server that has just started
  Status last;
  for (int i = 0; i < meeting.address.ports; ++i) {
    rendezvous::StoreAddress at = meeting.address;
    at.port = static_cast<std::uint16_t>(meeting.address.port + i);
    at.ports = 1;
    auto serving = serve_at(meeting, at.port);
    if (serving.ok()) return serving;
    last = serving.status();
    if (last.code() == Code::invalid_argument) return last;
    if (!net::is_taken(last)) continue;
    // Another process may have come as rank 0, too: both find out in the store of the first one.
    auto taken =
        rendezvous::find_store(at, Deadline::after(std::min<std::chrono::nanoseconds>(timeout, kAnswerTime)));
    if (taken.ok()) return Serving{.taken = std::move(*taken)};
  }
  return Status(Code::rendezvous,
                fmt::format("rank 0 cannot serve the store at {}: {}",
                            net::tcp_url(meeting.address.host, meeting.address.port), last.message()));
}

/// Keeps the server alive as long as the store is in use.
struct ServedStore {
  std::unique_ptr<TcpStoreServer> server;
  std::shared_ptr<Store> store;
};

}  // namespace

Status rendezvous::parse_store_url(const std::string& url, rendezvous::Meeting& meeting) {
  constexpr std::string_view kTcp = "tcp://";
  constexpr std::string_view kFile = "file://";
  const std::string wanted = "KOLO_STORE=\"" + url + "\" must be tcp://host:port or file:///path";
  if (url.starts_with(kFile)) {
    meeting.kind = rendezvous::Meeting::Kind::file;
    meeting.path = url.substr(kFile.size());
    return meeting.path.starts_with('/') ? Status() : Status(Code::invalid_argument, wanted);
  }
  const auto colon = url.rfind(':');
  if (!url.starts_with(kTcp) || colon < kTcp.size()) return Status(Code::invalid_argument, wanted);
  std::string host = url.substr(kTcp.size(), colon - kTcp.size());
  if (const std::string bare = net::without_brackets(host); bare != host) {
    host = bare;
  } else if (host.find(':') != std::string::npos) {
    return Status(Code::invalid_argument,
                  wanted + "; an IPv6 address belongs in brackets: tcp://[fd00::1]:29500");
  }
  const auto port = parse_port("KOLO_STORE=\"" + url + "\"", url.substr(colon + 1));
  if (!port.ok()) return port.status();
  if (host.empty()) return Status(Code::invalid_argument, wanted);
  meeting.kind = rendezvous::Meeting::Kind::tcp;
  meeting.address.host = host;
  meeting.address.port = port.value();
  return {};
}

Result<rendezvous::Meeting> rendezvous::plan_meeting(const Launch& launch, const Config& config,
                                                     const std::string& key,
                                                     const rendezvous::Lookup& lookup) {
  rendezvous::Meeting meeting;
  meeting.one_host = launch.local_size == launch.size;
  auto credentials = net::make_credentials(config, key);
  if (!credentials.ok()) return credentials.status();
  meeting.address.credentials = std::move(*credentials);
  if (!config.store.empty()) {
    if (Status status = rendezvous::parse_store_url(config.store, meeting); !status.ok()) return status;
    meeting.serve =
        meeting.kind == rendezvous::Meeting::Kind::tcp && launch.rank == 0 && !config.store_served;
    return meeting;
  }
  if (launch.size == 1) return meeting;
  meeting.kind = rendezvous::Meeting::Kind::tcp;
  meeting.serve = launch.rank == 0;
  Status status =
      lookup("MASTER_ADDR") ? plan_master(lookup, meeting) : plan_from_launcher(launch, lookup, meeting);
  if (!status.ok()) return status;
  return meeting;
}

Result<std::shared_ptr<Store>> rendezvous::hold_meeting(const rendezvous::Meeting& meeting,
                                                        std::chrono::nanoseconds timeout) {
  if (meeting.kind == rendezvous::Meeting::Kind::memory) return make_memory_store();
  if (meeting.kind == rendezvous::Meeting::Kind::file) return make_file_store(meeting.path);
  const Deadline deadline = Deadline::after(timeout);
  if (!meeting.serve) return rendezvous::find_store(meeting.address, deadline);

  auto serving = serve(meeting, timeout);
  if (!serving.ok()) return serving.status();
  if (serving->taken) return std::move(serving->taken);
  auto held = std::make_shared<ServedStore>();
  held->server = std::move(serving->server);
  const rendezvous::StoreAddress own{serving->host, held->server->port(), 1, meeting.address.credentials,
                                     meeting.address.host};
  auto store = rendezvous::find_store(own, deadline);
  if (!store.ok()) return store.status();
  held->store = std::move(*store);
  return std::shared_ptr<Store>(held, held->store.get());
}

std::string rendezvous::meeting_prefix(int call) {
  return fmt::format("meeting {}", call);
}

std::string rendezvous::attendance_key(int process) {
  return fmt::format("process {} has been in a group", process);
}

bool store_outlives_ranks(const Launch& launch) {
  Launch first = launch;  // rank 0, which serves if a rank does
  first.rank = 0;
  const rendezvous::Meeting meeting =
      rendezvous::plan_meeting(first, config(), job_key(), rendezvous::environment).value_or_throw();
  return meeting.kind != rendezvous::Meeting::Kind::memory && !meeting.serve;
}

std::shared_ptr<Store> store_from_environment(const Launch& launch, std::chrono::nanoseconds timeout,
                                              const std::string& key) {
  // One store for the life of the process, because ranks could not tell a second server from the first. Keyed
  // by rank, since ranks may be threads.
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<Store> store;
    int calls = 0;
  };
  static std::mutex mutex;
  static std::map<int, Entry> entries;
  Entry& entry = [&]() -> Entry& {
    const std::lock_guard lock(mutex);
    return entries[launch.rank];
  }();
  const std::lock_guard lock(entry.mutex);
  if (!entry.store) {
    const rendezvous::Meeting meeting =
        rendezvous::plan_meeting(launch, config(), key.empty() ? job_key() : key, rendezvous::environment)
            .value_or_throw();
    entry.store = rendezvous::hold_meeting(meeting, timeout).value_or_throw();
  }
  // Increment only after the store is open, so that a retry uses the same prefix as the other ranks' first
  // call.
  return make_prefix_store(rendezvous::meeting_prefix(++entry.calls), entry.store);
}

}  // namespace kolo
