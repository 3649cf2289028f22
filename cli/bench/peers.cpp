#include "bench/peers.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <random>
#include <stdexcept>

#include "base/cores.hpp"
#include "bench/processes.hpp"
#include "launch/child.hpp"
#include "text/size.hpp"

namespace kolo::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kToday = "-D KOLO_PEERS=FOLDER (scripts/peers-of-today makes it)";

constexpr std::array<PeerKind, 9> kPeers = {{
    {"gloo", "peer_gloo", "", "libgloo-dev", "tcp", "private"},
    {"openmpi", "peer_openmpi", "mpirun.openmpi", "openmpi-bin libopenmpi-dev", "", "private",
     "--allow-run-as-root --oversubscribe", "--mca pml ob1 --mca btl vader,self",
     "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo"},
    {"mpich", "peer_mpich", "mpirun.mpich", "mpich libmpich-dev", "", "private", "", "",
     "MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self UCX_NET_DEVICES=lo"},
    {"openmpi5", "peer_openmpi5", "peers/openmpi5/bin/mpirun", kToday, "", "private",
     "--allow-run-as-root --map-by :OVERSUBSCRIBE", "--mca pml ob1 --mca btl sm,self",
     "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo", " --mca coll_sm_priority 100"},
    {"mpich5", "peer_mpich5", "peers/mpich5/bin/mpiexec", kToday, "shm", "private"},
    {"intelmpi", "peer_intelmpi", "peers/intelmpi/bin/mpiexec", kToday, "shm", "private",
     "I_MPI_ROOT={0} FI_PROVIDER_PATH={0}/lib/libfabric"},
    {"oneccl", "peer_oneccl", "peers/oneccl/bin/mpiexec", kToday, "shm", "private",
     "I_MPI_ROOT={0} FI_PROVIDER_PATH={0}/lib/libfabric LD_LIBRARY_PATH={0}/lib CCL_LOG_LEVEL=error",
     "CCL_ATL_TRANSPORT=mpi CCL_WORKER_OFFLOAD=0"},
    {"limit", "peer_limit", "", "", "memory", "shared"},
    {"exchange", "peer_exchange", "", "", "tcp", "private"},
}};

constexpr auto kStartLimit = 60s;
constexpr auto kOrderLimit = 300s;

/// The settings of a library whose ranks one starter starts: the best for the transport, otherwise its
/// defaults.
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
  const std::filesystem::path here = std::filesystem::path(program_path()).parent_path();
  const std::string program = here / kind.program, n = std::to_string(ranks);
  std::string starter(kind.starter);
  if (starter.find('/') != std::string::npos) starter = here / starter;
  if (!cli::find_program(program).ok() || !(starter.empty() || cli::find_program(starter).ok())) {
    reason = fmt::format(
        "{} is not here: it needs bin/kolo of a build folder that was made with -D KOLO_BENCH=ON{}{}",
        kind.name, kind.packages.empty() ? "" : " and ", kind.packages);
    return nullptr;
  }
  try {
    std::unique_ptr<Peer> peer(new Peer);
    peer->name_ = kind.name;
    peer->transport_ = kind.transport.empty() ? transport : kind.transport;
    peer->memory_ = kind.memory;
    const bool tcp = peer->transport_ == "tcp";
    peer->settings_ = tcp ? kind.over_tcp : kind.in_memory;
    if (!tcp && ranks <= usable_cores().count()) peer->settings_ += kind.own_core;
    peer->output_ = UniqueFd(::memfd_create("kolo-bench-peer", MFD_CLOEXEC));
    const std::string socket = unguessable_name();
    const UniqueFd listener = listen_on(socket);
    const ScratchFolder folder;
    // Words with "=" are variables, words without it are options of the starter.
    std::vector<std::string> command = {starter}, variables;
    const std::string home = std::filesystem::path(starter).parent_path().parent_path();
    const std::string needed = fmt::format(fmt::runtime(kind.needed), home);
    for (const std::string_view text : {std::string_view(needed), std::string_view(peer->settings_)}) {
      for (const std::string_view word : cli::split(text, ' ')) {
        if (!word.empty()) (word.find('=') == word.npos ? command : variables).emplace_back(word);
      }
    }
    std::vector<std::vector<std::string>> commands;
    if (!starter.empty()) {
      command.insert(command.end(), {"-n", n, program, socket});
      commands.push_back(command);
    } else if (kind.name == "gloo") {
      for (int rank = 0; rank < ranks; ++rank)
        commands.push_back({program, socket, std::to_string(rank), n, folder.path});
    } else {  // these programs fork their ranks
      commands.push_back({program, socket, n});
    }
    for (const auto& one : commands) {
      const pid_t child = start_process(one, peer->output_.get(), variables);
      if (child < 0) throw std::runtime_error("cannot start " + one[0]);
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
