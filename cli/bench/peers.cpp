#include "bench/peers.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>

#include "bench/processes.hpp"

namespace kolo::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::array<PeerKind, 5> kPeers = {{
    {"gloo", "peer_gloo", "", "libgloo-dev", "tcp", "private"},
    {"openmpi", "peer_openmpi", "mpirun.openmpi", "openmpi-bin libopenmpi-dev", "", "private"},
    {"mpich", "peer_mpich", "mpirun.mpich", "mpich libmpich-dev", "", "private"},
    {"limit", "peer_limit", "", "", "memory", "shared"},
    {"exchange", "peer_exchange", "", "", "tcp", "private"},
}};

constexpr auto kStartLimit = 60s;
constexpr auto kOrderLimit = 300s;

struct Launch {
  std::vector<std::vector<std::string>> commands;
  std::vector<std::pair<std::string, std::string>> environment;
};

// How each library is started: with the best settings for the transport, otherwise with its defaults.
Launch launch_of(const PeerKind& kind, const std::string& program, int ranks, const std::string& transport,
                 const std::string& socket, const std::string& folder) {
  const std::string n = std::to_string(ranks);
  const bool tcp = transport == "tcp";
  Launch launch;
  if (kind.name == "gloo") {
    for (int rank = 0; rank < ranks; ++rank) {
      launch.commands.push_back({program, socket, std::to_string(rank), n, folder});
    }
  } else if (kind.name == "limit" || kind.name == "exchange") {  // these programs fork their ranks
    launch.commands.push_back({program, socket, n});
  } else if (kind.name == "openmpi") {
    std::vector<std::string> command = {std::string(kind.starter),
                                        "--allow-run-as-root",
                                        "--oversubscribe",
                                        "-n",
                                        n,
                                        "--mca",
                                        "pml",
                                        "ob1",
                                        "--mca",
                                        "btl",
                                        tcp ? "tcp,self" : "vader,self"};
    if (tcp) command.insert(command.end(), {"--mca", "btl_tcp_if_include", "lo"});
    command.insert(command.end(), {program, socket});
    launch.commands.push_back(command);
  } else {
    launch.commands.push_back({std::string(kind.starter), "-n", n, program, socket});
    if (tcp) {
      launch.environment = {{"MPIR_CVAR_NOLOCAL", "1"}, {"UCX_TLS", "tcp,self"}, {"UCX_NET_DEVICES", "lo"}};
    }
  }
  return launch;
}

std::string unguessable_name() {
  std::random_device random;
  return fmt::format("kolo-bench-{}-{:08x}{:08x}", ::getpid(), random(), random());
}

// A temporary folder, removed by the destructor.
struct ScratchFolder {
  std::string path = (std::filesystem::temp_directory_path() / "kolo-bench-XXXXXX").string();
  ScratchFolder() {
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

std::span<const PeerKind> peer_kinds() noexcept {
  return kPeers;
}

const PeerKind* find_peer_kind(std::string_view name) noexcept {
  const auto found =
      std::find_if(kPeers.begin(), kPeers.end(), [&](const auto& kind) { return kind.name == name; });
  return found == kPeers.end() ? nullptr : &*found;
}

std::unique_ptr<Peer> Peer::start(const PeerKind& kind, int ranks, const std::string& transport,
                                  std::string& reason) {
  const std::string program = (std::filesystem::path(program_path()).parent_path() / kind.program).string();
  const bool startable = kind.starter.empty() || find_program(std::string(kind.starter));
  if (!startable || !find_program(program)) {
    const std::string where = kind.packages.empty() ? "" : fmt::format(" and {}", kind.packages);
    const std::string remedy =
        startable ? fmt::format(
                        "{} is not beside this kolo; run bin/kolo of a build folder that was made with "
                        "-D KOLO_BENCH=ON{}",
                        kind.program, where)
                  : fmt::format("install {} and build kolo again", kind.packages);
    reason = fmt::format("{} is not here: {}", kind.name, remedy);
    return nullptr;
  }
  try {
    std::unique_ptr<Peer> peer(new Peer);
    peer->name_ = kind.name;
    peer->transport_ = kind.transport.empty() ? transport : kind.transport;
    peer->memory_ = kind.memory;
    peer->output_ = UniqueFd(::memfd_create("kolo-bench-peer", MFD_CLOEXEC));
    const std::string socket = unguessable_name();
    const UniqueFd listener = listen_on(socket);
    const ScratchFolder folder;
    const Launch launch = launch_of(kind, program, ranks, transport, socket, folder.path);
    for (const auto& command : launch.commands) {
      const pid_t child = start_process(command, peer->output_.get(), launch.environment);
      if (child < 0) throw std::runtime_error("cannot start " + command[0]);
      peer->children_.push_back(child);
    }
    if (peer->meet(listener.get(), ranks, reason)) return peer;
  } catch (const std::exception& error) {
    reason = fmt::format("{} did not start: {}", kind.name, error.what());
  }
  return nullptr;
}

bool Peer::meet(int listener, int ranks, std::string& reason) {
  std::vector<std::optional<Line>> met(static_cast<std::size_t>(ranks));
  const auto end = std::chrono::steady_clock::now() + kStartLimit;
  for (int missing = ranks; missing > 0;) {
    if (ended() || std::chrono::steady_clock::now() > end) {
      reason = fmt::format("{} did not start ({} of {} ranks came): {}", name_, ranks - missing, ranks,
                           last_words());
      return false;
    }
    auto line = accept_from(listener, 100ms);
    if (!line) continue;
    const auto hello = line->read(std::chrono::duration_cast<std::chrono::milliseconds>(kStartLimit));
    if (!hello) continue;
    const int rank = hello->at("rank");
    if (rank < 0 || rank >= ranks || met[static_cast<std::size_t>(rank)]) {
      reason = fmt::format("{} did not start: two of its ranks say that they are rank {}", name_, rank);
      return false;
    }
    library_ = hello->at("library");
    met[static_cast<std::size_t>(rank)].emplace(std::move(*line));
    --missing;
  }
  for (auto& line : met) lines_.push_back(std::move(*line));
  return true;
}

std::vector<Sample> Peer::measure(const Order& order) {
  if (!failure_.empty()) return {};
  try {
    for (Line& line : lines_) line.write(to_json(order));
    const auto end = std::chrono::steady_clock::now() + kOrderLimit;
    while (std::chrono::steady_clock::now() < end) {
      if (const auto answer = lines_[0].read(100ms)) return samples_from_json(*answer);
      if (lines_[0].closed() || ended()) break;
    }
    failure_ = fmt::format("{} failed at {} bytes: {}", name_, order.what.bytes(), last_words());
  } catch (const std::exception& error) {
    failure_ = fmt::format("{} failed: {} {}", name_, error.what(), last_words());
  }
  stop();
  return {};
}

bool Peer::ended() {
  bool any = false;
  std::erase_if(children_, [&](pid_t pid) {
    const bool gone = ::waitpid(pid, nullptr, WNOHANG) == pid;
    any = any || gone;
    return gone;
  });
  return any;
}

std::string Peer::last_words() const {
  char text[400];
  const off_t size = ::lseek(output_.get(), 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - static_cast<off_t>(sizeof(text)));
  const ssize_t got = ::pread(output_.get(), text, sizeof(text), begin);
  if (got <= 0) return "it said nothing";
  std::string words(text, static_cast<std::size_t>(got));
  std::replace(words.begin(), words.end(), '\n', ' ');
  return words;
}

void Peer::stop() {
  lines_.clear();  // closing the connections ends the programs
  end_processes(children_, 5s);
}

Peer::~Peer() {
  stop();
}

}  // namespace kolo::bench
