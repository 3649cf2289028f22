#include "stress/member.hpp"

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "stress/belongings.hpp"
#include "stress/calls.hpp"
#include "stress/control.hpp"

namespace kolo::stress {
namespace {

using std::chrono::milliseconds;

constexpr int kStepsBetweenSums = 2;
constexpr std::chrono::microseconds kPause{500};  // for newcomers, which start on the same cores
constexpr std::chrono::seconds kOpenTime{1};
constexpr std::chrono::seconds kQueueTime{5};  // in one store
constexpr double kComingTime = 60;

constexpr int kMostDescriptors = 256;

// For cut_a_link().
JobControl* shared_control = nullptr;
ino_t
    former_links[kMostDescriptors];  // of groups before, which agree over them on the next one; by descriptor

bool is_store_port(const sockaddr_storage& address) {
  return address.ss_family == AF_INET &&
         ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port) == shared_control->store_port.load();
}

/// The inode of a connection to another rank; 0 for all else.
ino_t link_at(int descriptor) {
  int type = 0;
  socklen_t length = sizeof type;
  if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type == SOCK_DGRAM) return 0;
  sockaddr_storage address{};
  length = sizeof address;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (is_store_port(address)) return 0;
  length = sizeof address;
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length);
  struct stat found {};
  return is_store_port(address) || fstat(descriptor, &found) != 0 ? 0 : found.st_ino;
}

void remember_links() {
  for (int descriptor = 0; descriptor < kMostDescriptors; ++descriptor)
    former_links[descriptor] = link_at(descriptor);
}

/// A signal handler.
void cut_a_link(int) {
  const int error = errno;
  int links[kMostDescriptors];
  unsigned count = 0;
  for (int descriptor = 0; descriptor < kMostDescriptors; ++descriptor) {
    const ino_t link = link_at(descriptor);
    if (link != 0 && link != former_links[descriptor]) links[count++] = descriptor;
  }
  if (count > 0) shutdown(links[shared_control->cut.load() % count], SHUT_RDWR);
  errno = error;
}

long resident_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long value = 0;
    if (word == "RssAnon:" && status >> value) return value;
  }
  return 0;
}

class Member {
 public:
  Member(const Role& role, const Limits& limits, JobControl& control)
      : role_(role), limits_(limits), control_(control), report_(control.members[role.slot]) {}

  void live();
  void be_refused();

 private:
  struct Agreed {
    std::uint64_t group;
    bool has_newcomers;
    bool is_over;
  };

  Options options(std::chrono::nanoseconds timeout) const {
    return {.timeout = timeout,
            .transports = role_.transport,
            .program = role_.program,
            .process = role_.process};
  }
  std::shared_ptr<Store> serve();
  std::shared_ptr<Store> open_store(std::chrono::nanoseconds timeout);
  Communicator come();
  Communicator join();
  Communicator regroup(Communicator last);
  Communicator returned(Communicator made);
  Agreed agree(Communicator& group);
  bool call_until_change(Communicator& group);

  const Role& role_;
  const Limits& limits_;
  JobControl& control_;
  MemberReport& report_;
  std::unique_ptr<TcpStoreServer> server_;
  Memory memory_{static_cast<std::uint64_t>(role_.number), true};
  bool is_newcomer_ = true;  // has had no sum in the group in which it is
};

std::shared_ptr<Store> Member::serve() {
  server_ = serve_tcp_store("127.0.0.1", 0, "");
  control_.store_port = server_->port();
  return connect_tcp_store("127.0.0.1", server_->port(), "", std::chrono::seconds(5));
}

std::shared_ptr<Store> Member::open_store(std::chrono::nanoseconds timeout) {
  if (!role_.file.empty()) return make_file_store(role_.file);
  while (control_.store_port == 0) std::this_thread::sleep_for(milliseconds(1));
  return connect_tcp_store("127.0.0.1", static_cast<std::uint16_t>(control_.store_port.load()), "", timeout);
}

Communicator Member::come() {
  if (role_.size == 0) return join();
  const bool serves = role_.file.empty() && role_.slot == 0;
  is_newcomer_ = false;
  return Communicator::create(serves ? serve() : open_store(limits_.timeout), static_cast<int>(role_.slot),
                              role_.size, options(limits_.timeout));
}

/// As a launcher that names the present store, since that may die with its rank at any time.
Communicator Member::join() {
  is_newcomer_ = true;
  for (const double until = now() + kComingTime;;) {
    try {
      Communicator made = Communicator::join(open_store(kOpenTime), options(kQueueTime));
      made.set_timeout(limits_.timeout);
      return returned(std::move(made));
    } catch (const RendezvousError&) {
      if (now() > until) throw;
    } catch (const MismatchError& error) {
      // The process that had this slot before has died, and the group has not noticed it yet.
      if (std::string(error.what()).find("is in the group already") == std::string::npos || now() > until)
        throw;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
}

Communicator Member::regroup(Communicator last) {
  ++report_.regroupings;
  remember_links();
  RegroupOptions how;
  if (role_.file.empty()) how.serve = [this] { return serve(); };
  const double began = now();
  const auto come_again = [&](const Error& error) {
    std::fprintf(stderr, "process %d comes again after %.3f s: %s\n", role_.number, now() - began,
                 error.what());
    ++(is_newcomer_ ? report_.joined_again : report_.times_left_out);
    return join();
  };
  try {
    return returned(last.regroup(nullptr, how));
  } catch (const PeerLostError& error) {
    return come_again(error);
  } catch (const QuorumError& error) {
    return come_again(error);
  }
}

Communicator Member::returned(Communicator made) {
  if (const int prey = control_.prey.exchange(0); prey != 0) kill(prey, SIGKILL);
  return made;
}

Member::Agreed Member::agree(Communicator& group) {
  std::vector<std::int64_t> said(kSlots + 2);
  said[role_.slot] = role_.number;
  said[kSlots] = group.has_newcomers() ? 1 : 0;
  said[kSlots + 1] = control_.is_over ? 1 : 0;
  group.all_reduce(said);
  is_newcomer_ = false;
  const std::span numbers(said.data(), kSlots);
  if (numbers[role_.slot] != role_.number) throw Wrong("a wrong sum of those who are there");
  if (std::ranges::count_if(numbers, [](std::int64_t number) { return number != 0; }) != group.size())
    throw Wrong("a group with another size");
  return {identity_of(numbers), said[kSlots] != 0, said[kSlots + 1] != 0};
}

/// Whether the job is over.
bool Member::call_until_change(Communicator& group) {
  Agreed agreed = agree(group);
  Calls calls(group, memory_);
  Steps steps({.seed = agreed.group}, limits_);
  for (;; agreed = agree(group)) {
    report_.rank = group.rank();
    report_.group = agreed.group;
    ++report_.sums;
    if (agreed.is_over || agreed.has_newcomers) return agreed.is_over;
    for (int i = 0; i < kStepsBetweenSums; ++i) calls.run(steps.next());
    std::this_thread::sleep_for(kPause);
  }
}

void Member::live() {
  Communicator group = come();
  for (bool is_over = false; !is_over;) {
    try {
      is_over = call_until_change(group);
    } catch (const PeerLostError& error) {
      std::fprintf(stderr, "process %d, rank %d: %s\n", role_.number, group.rank(), error.what());
      memory_.free_all();
    }
    if (!is_over) group = regroup(group);
    report_.descriptors = Belongings::look().descriptors;
    report_.resident_kb = resident_kb();
  }
}

void Member::be_refused() {
  for (const double until = now() + kComingTime; now() < until;) {
    try {
      (void)Communicator::join(open_store(kOpenTime), options(kQueueTime));
      throw Wrong("a stranger has come in");
    } catch (const MismatchError&) {
      return;
    } catch (const RendezvousError&) {
    }
  }
  throw Wrong("a stranger is not refused");
}

}  // namespace

std::uint64_t identity_of(std::span<const std::int64_t> numbers) {
  std::uint64_t identity = 0;
  for (const std::int64_t number : numbers)
    identity = Random(identity ^ static_cast<std::uint64_t>(number)).next();
  return identity;
}

void be_member(const Role& role, const Limits& limits, JobControl& control) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);  // the kernel sends SIGCONT to an orphaned process group with a stopped member
  shared_control = &control;
  signal(SIGUSR1, cut_a_link);
  int code = 0;
  try {
    const Belongings before = Belongings::look();
    {
      Member member(role, limits, control);
      role.is_stranger ? member.be_refused() : member.live();
    }
    const Belongings after = Belongings::look();
    if (!(before == after)) throw Wrong("it began with " + before.text() + " and ended with " + after.text());
  } catch (const std::exception& error) {
    std::snprintf(control.members[role.slot].fault, MemberReport::kText, "%s", error.what());
    code = 1;
  }
  _exit(code);
}

}  // namespace kolo::stress
