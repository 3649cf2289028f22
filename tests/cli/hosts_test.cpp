// kolo run --hosts: lists of hosts, the records of launcher and parts, and whole runs through a fake ssh
// that runs commands locally. tests/cluster/hosts_test.py uses the real ssh.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "command.hpp"
#include "kolo/error.hpp"
#include "launch/hosts.hpp"
#include "launch/output.hpp"
#include "launch/records.hpp"
#include "net/socket.hpp"
#include "survivors.hpp"

namespace kolo::cli {
namespace {

using test::Command;

std::string text_of(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts)
    text += host.login + "|" + host.name() + "|" + std::to_string(host.slots) + " ";
  return text;
}

/// The error for a refused list.
std::string refusal(const std::string& list) {
  try {
    parse_hosts(list);
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST(Hosts, AreNamedWithSlots) {
  EXPECT_EQ(text_of(parse_hosts("a:4,me@b:2,c,10.0.0.1:3")), "a|a|4 me@b|b|2 c|c|1 10.0.0.1|10.0.0.1|3 ");
  EXPECT_EQ(text_of(parse_hosts("[fd00::2]:4,me@[fd00::3]")), "fd00::2|fd00::2|4 me@fd00::3|fd00::3|1 ");
}

TEST(Hosts, BlanksAroundThemAreNotTheirs) {
  EXPECT_EQ(text_of(parse_hosts("a:4, me@b:2 ,\tc")), "a|a|4 me@b|b|2 c|c|1 ");
}

TEST(Hosts, SenselessOnesAreQuoted) {
  for (const std::string bad :
       {"", "a,,b", "a:0", "a:many", "a:4097", "fd00::2", "[fd00::2", "[fd00::2]4", "-oProxyCommand=x",
        "a:1,a:2", "me@", "node[1-4]", "node[1,2]", "[node1]", "node]", "[10.0.0.1]", "a 2", "[]:2", "a:"}) {
    EXPECT_NE(refusal(bad), "") << bad;
  }
  EXPECT_NE(refusal("a:4,b:x").find("\"b:x\""), std::string::npos);
  EXPECT_NE(refusal("fd00::2").find("[fd00::2]:4"), std::string::npos);
  EXPECT_NE(refusal("node[1-4,7]").find("name every host"), std::string::npos);
}

TEST(Hosts, ComeFromAFile) {
  const std::string path = ::testing::TempDir() + "kolo-hosts-" + std::to_string(::getpid());
  std::ofstream(path) << "# ours\na 4\n\nme@b:2   # the old one\n[fd00::2] 3\n";
  EXPECT_EQ(text_of(read_hosts_file(path)), "a|a|4 me@b|b|2 fd00::2|fd00::2|3 ");
  const auto refused = [](const std::string& file, const std::string& words) {
    try {
      read_hosts_file(file);
      ADD_FAILURE() << "it was taken";
    } catch (const InvalidArgumentError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  for (const char* line : {"b four", "b:2 4", "b 2 4", "b[1-4] 2"}) {
    std::ofstream(path) << "a 4\n" << line << "\n";
    refused(path, path + ":2");
  }
  std::filesystem::remove(path);
  refused(path, path + ": No such file");
  refused(::testing::TempDir(), ::testing::TempDir() + ": Is a directory");
}

TEST(Hosts, AnAddressOfOneLinkKeepsItsInterface) {
  const auto hosts = parse_hosts("[fe80::1%lo]:1,[fe80::2%lo]:1");
  EXPECT_EQ(hosts[0].name(), "fe80::1%lo");
  EXPECT_EQ(choose_addresses(hosts, "fe80::3%lo").master, "fe80::1%lo");
}

/// The result of a bind to the port at `host`, with SO_REUSEADDR (as in servers) or without.
int bind_to(const std::string& host, int port, int reuse) {
  const net::SocketAddress address = net::resolve(host, static_cast<std::uint16_t>(port)).value_or_throw()[0];
  const UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  if (!fd.valid() || ::bind(fd.get(), address.data(), address.size()) != 0) return errno;
  return ::listen(fd.get(), 1) == 0 ? 0 : errno;
}

TEST(ReservedPort, IsForServersOfBothFamiliesAndForNobodyElse) {
  const ReservedPort reserved(false);
  for (const std::string host : {"127.0.0.1", "0.0.0.0", "::1", "::"}) {
    if (bind_to(host, 0, 0) != 0) continue;  // no IPv6 here
    EXPECT_EQ(bind_to(host, reserved.port(), 1), 0) << host;
    EXPECT_EQ(bind_to(host, reserved.port(), 0), EADDRINUSE) << host;
  }
}

TEST(Records, ArriveInAnyPieces) {
  const std::string bytes = "Welcome!\n" + part_hello(4711) +
                            record(RecordKind::out, 7, std::string("a\0b\n", 4)) + record(RecordKind::done);
  RecordReader reader;
  std::vector<Record> records;
  int port = 0;
  for (const char byte : bytes) {
    reader.feed({&byte, 1});
    if (port == 0) port = reader.skip_hello().value_or_throw();
    if (port == 0) continue;
    if (auto next = reader.next().value_or_throw()) records.push_back(*next);
  }
  EXPECT_EQ(port, 4711);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].kind, RecordKind::out);
  EXPECT_EQ(records[0].number, 7);
  EXPECT_EQ(records[0].text, std::string("a\0b\n", 4));
  EXPECT_EQ(records[1].kind, RecordKind::done);
}

TEST(Records, NonsenseIsAnError) {
  for (const std::string& nonsense :
       {std::string(40, '\xff'), std::string("o 1\n"), std::string("o 1 99999999\n"), std::string("o 1 -1\n"),
        std::string("\n"), std::string(50, '1')}) {
    RecordReader reader;
    reader.feed(nonsense);
    EXPECT_FALSE(reader.next().ok()) << nonsense;
  }
  RecordReader chatty;
  chatty.feed(std::string(1 << 17, 'x'));
  EXPECT_FALSE(chatty.skip_hello().ok());
}

TEST(Records, AnotherVersionIsRefusedByName) {
  RecordReader reader;
  reader.feed("Welcome!\nkolo-part 2 4711");
  EXPECT_EQ(reader.skip_hello().value_or_throw(), 0);
  reader.feed("\n");
  EXPECT_NE(reader.skip_hello().status().message().find("kolo-part 2 4711,"), std::string::npos);
}

TEST(ByteQueue, ItsMemoryIsWhatWaitsAndNotWhatHasPassed) {
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe2(ends.data(), O_NONBLOCK), 0);
  const auto most_kb = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = most_kb();
  ByteQueue queue;
  std::array<char, 1 << 16> block{};
  for (int mib = 0; mib < 64; ++mib) {
    for (int part = 0; part < 16; ++part)
      queue.append(record(RecordKind::out, 0, {block.data(), block.size()}));
    while (queue.full()) {  // it never gets empty
      ASSERT_EQ(queue.drain(ends[1]), 0);
      ASSERT_GT(::read(ends[0], block.data(), block.size()), 0);
    }
  }
  EXPECT_LT(most_kb() - before, 16 << 10);
  ::close(ends[0]);
  ::close(ends[1]);
}

/// kolo run over a fake ssh that runs the command on this host; each name of this host counts as a host.
class ThroughFakeSsh : public ::testing::Test {
 protected:
  void SetUp() override {
    ::alarm(100);
    folder_ = ::testing::TempDir() + "kolo-fake-ssh-" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
    make_ssh("echo \"Welcome to $host\"; exec sh -c \"$*\"");
  }
  void TearDown() override {
    EXPECT_EQ(test::survivors(mark_["TEST_MARK"]), 0) << "processes were left behind";
    std::filesystem::remove_all(folder_);
    ::alarm(0);
  }

  /// `body` is the script of the fake ssh; it gets the host in $host and the command in $*.
  void make_ssh(const std::string& body) const {
    std::ofstream(folder_ + "/ssh")
        << "#!/bin/sh\n"
           "while :; do case $1 in -o) shift 2;; -*) shift;; *) break;; esac; done\n"
           "host=$1; shift\n"
        << body << "\n";
    ::chmod((folder_ + "/ssh").c_str(), 0755);
  }

  std::vector<std::string> run(const std::vector<std::string>& options,
                               const std::vector<std::string>& program) const {
    std::vector<std::string> all = {KOLO_PROGRAM, "run",           "--hosts", "localhost:2,127.0.0.1:2",
                                    "--ssh",      folder_ + "/ssh"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", RANK_PROGRAM});
    all.insert(all.end(), program.begin(), program.end());
    return all;
  }

  std::string folder_;
  std::map<std::string, std::string> mark_ = {{"TEST_MARK", "fake-ssh-" + std::to_string(::getpid())}};
};

TEST_F(ThroughFakeSsh, RanksAreNumberedHostByHost) {
  Command command(run({"-x", "FRUIT=pear", "-x", "TREE", "-x", "NOWHERE"},
                      {"environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "FRUIT", "TREE",
                       "NOWHERE", "KOLO_STORE_SERVED", "OMP_NUM_THREADS"}),
                  {{"TREE", "oak"}, {"OMP_NUM_THREADS", "3"}});
  EXPECT_EQ(command.finish(), 0) << command.err();
  EXPECT_EQ(Command::count(command.err(), "kolo: -x "), 1) << command.err();
  EXPECT_NE(command.err().find("kolo: -x NOWHERE: it is not set here [K901]\n"), std::string::npos);
  for (int r = 0; r < 4; ++r) {
    std::istringstream lines(command.out());
    const std::string prefix = "[" + std::to_string(r) + "] ";
    std::string seen;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(prefix)) seen += line.substr(prefix.size()) + " ";
    }
    EXPECT_EQ(
        seen,
        "RANK=" + std::to_string(r) + " WORLD_SIZE=4 LOCAL_RANK=" + std::to_string(r % 2) +
            " LOCAL_WORLD_SIZE=2 FRUIT=pear TREE=oak NOWHERE=(unset) KOLO_STORE_SERVED=1 OMP_NUM_THREADS=3 ");
  }
}

TEST_F(ThroughFakeSsh, ARankThatHasItsHostAloneHasAllOfItsCores) {
  ::unsetenv("OMP_NUM_THREADS");
  for (const auto& [hosts, alone, sharing] :
       {std::tuple("localhost,127.0.0.1", 2, 0), std::tuple("localhost:2,127.0.0.1", 1, 2)}) {
    std::vector<std::string> program = run({"--no-prefix"}, {"environment", "OMP_NUM_THREADS"});
    std::ranges::replace(program, "localhost:2,127.0.0.1:2", hosts);
    Command command(program, mark_);
    EXPECT_EQ(command.finish(), 0) << command.err();
    EXPECT_EQ(Command::count(command.out(), "OMP_NUM_THREADS=(unset)\n"), alone) << command.out();
    EXPECT_EQ(Command::count(command.out(), "OMP_NUM_THREADS=1\n"), sharing) << command.out();
  }
}

TEST_F(ThroughFakeSsh, TheFirstFailureStopsAll) {
  Command exited(run({}, {"fail", "2", "9"}));
  EXPECT_EQ(exited.finish(), 9);
  EXPECT_NE(exited.err().find("127.0.0.1: rank 2 (pid "), std::string::npos) << exited.err();
  EXPECT_NE(exited.err().find(") exited with code 9; stopping the other 3 [K903]\n"), std::string::npos)
      << exited.err();
  Command killed(run({}, {"die", "1", std::to_string(SIGKILL)}));
  EXPECT_EQ(killed.finish(), 128 + SIGKILL);
  EXPECT_NE(killed.err().find("localhost: rank 1 (pid "), std::string::npos) << killed.err();
}

TEST_F(ThroughFakeSsh, AKilledRankExplainsAnExitCodeThatArrivesSooner) {
  std::vector<std::string> program = run({}, {});
  program.pop_back();
  program.insert(program.end(),
                 {"sh", "-c", "case $RANK in 0) exit 9;; 3) sleep 0.3; kill -KILL $$;; *) sleep 50;; esac"});
  Command command(program, mark_);
  EXPECT_EQ(command.finish(), 128 + SIGKILL);
  EXPECT_NE(command.err().find(") exited with code 9; stopping the other 3 [K903]\n"), std::string::npos)
      << command.err();
  EXPECT_NE(command.err().find(") was killed by signal 9 (Killed) [K903]\n"), std::string::npos)
      << command.err();
}

TEST_F(ThroughFakeSsh, RanksReportWhichOneTheyLost) {
  std::vector<std::string> program = run({}, {});
  program.back() = LOST_PROGRAM;
  Command command(program, mark_);
  EXPECT_EQ(command.finish(), 128 + SIGKILL);
  for (const char* rank : {"[0] ", "[1] ", "[2] "})
    EXPECT_NE(command.err().find(std::string(rank) + "lost rank 3"), std::string::npos) << command.err();
}

TEST_F(ThroughFakeSsh, SignalsReachEveryRank) {
  Command command(run({}, {"report-signal"}));
  ASSERT_TRUE(command.until("ready", 4));
  ::kill(command.pid(), SIGUSR1);
  EXPECT_EQ(command.finish(), 0) << command.err();
  EXPECT_EQ(Command::count(command.out(), "heard " + std::to_string(SIGUSR1)), 4) << command.out();
  Command interrupted(run({}, {"sleep"}));
  ASSERT_TRUE(interrupted.until("ready", 4));
  ::kill(interrupted.pid(), SIGINT);
  EXPECT_EQ(interrupted.finish(), 128 + SIGINT);
}

TEST_F(ThroughFakeSsh, CtrlZStopsEveryRankUntilTheLauncherGoesOn) {
  Command command(run({}, {"report-signal"}), mark_);
  ASSERT_TRUE(command.until("ready", 4));
  ::kill(command.pid(), SIGTSTP);
  const auto stopped = [&] { return test::survivors(mark_["TEST_MARK"], 'T'); };
  for (int i = 0; i < 1000 && stopped() != 5; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(stopped(), 5) << "the launcher and four ranks";
  ::kill(command.pid(), SIGCONT);
  ::kill(command.pid(), SIGUSR1);
  EXPECT_EQ(command.finish(), 0) << command.err();
  EXPECT_EQ(Command::count(command.out(), "heard " + std::to_string(SIGUSR1)), 4) << command.out();
}

TEST_F(ThroughFakeSsh, ASecondSigintKillsAtOnce) {
  Command command(run({"--grace", "1000"}, {"deaf"}));
  ASSERT_TRUE(command.until("ready", 4));
  ::kill(command.pid(), SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.finish(), 128 + SIGINT);
}

TEST_F(ThroughFakeSsh, WhatCannotStartIsTold) {
  Command nothing(
      {KOLO_PROGRAM, "run", "--hosts", "localhost", "--ssh", folder_ + "/ssh", "/no/such/program"});
  EXPECT_EQ(nothing.finish(), 127);
  EXPECT_NE(nothing.err().find("localhost: cannot start /no/such/program"), std::string::npos)
      << nothing.err();
  Command refused({KOLO_PROGRAM, "run", "--hosts", "localhost", "--ssh", "false", "true"});
  EXPECT_EQ(refused.finish(), 127);
  EXPECT_NE(refused.err().find("cannot start on localhost: false ended with code 1"), std::string::npos)
      << refused.err();
  Command usage({KOLO_PROGRAM, "run", "--hosts", "a:b", "true"});
  EXPECT_EQ(usage.finish(), 2);
  Command both({KOLO_PROGRAM, "run", "-n", "2", "--hosts", "a", "true"});
  EXPECT_EQ(both.finish(), 2);
  Command unknown({KOLO_PROGRAM, "run", "--hosts", "no-such-host.invalid:2", "true"});
  EXPECT_EQ(unknown.finish(), 127) << unknown.err();
  EXPECT_NE(unknown.err().find("\"no-such-host.invalid\" is not known here"), std::string::npos)
      << unknown.err();
}

TEST_F(ThroughFakeSsh, LongOutputArrivesWhole) {
  constexpr int kLines = 300;
  Command command(run({}, {"spam", std::to_string(kLines)}), {}, true);
  EXPECT_EQ(command.finish(), 0);
  for (int r = 0; r < 4; ++r) {
    const std::string line =
        "[" + std::to_string(r) + "] " + std::string(997, static_cast<char>('a' + r)) + "\n";
    EXPECT_EQ(Command::count(command.out(), line), kLines) << "rank " << r;
  }
}

TEST_F(ThroughFakeSsh, PartsOfAKilledLauncherEndThoughNobodyTookTheOutput) {
  make_ssh("sh -c \"$*\"");  // its end, as that of a real ssh, does not end the part
  Command command(run({}, {"spam", "100000000"}), mark_);
  ASSERT_TRUE(command.until("[3]", 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // every pipe and queue is full by now
  ::kill(command.pid(), SIGKILL);
  EXPECT_TRUE(test::all_gone(mark_["TEST_MARK"]));
}

TEST_F(ThroughFakeSsh, WhatSshHasStartedEndsWithIt) {
  make_ssh("echo connecting >&2; sleep 1000");
  Command command(run({}, {"sleep"}), mark_, true);
  ASSERT_TRUE(command.until("connecting", 2));
  ::kill(command.pid(), SIGTERM);
  EXPECT_EQ(command.finish(), 128 + SIGTERM);
  EXPECT_TRUE(test::all_gone(mark_["TEST_MARK"]));
}

TEST_F(ThroughFakeSsh, AChildThatOutlivesSshHoldsNothingUp) {
  make_ssh("[ $host = localhost ] && echo me=$$= >&2; sh -c \"$*\"");
  const auto began = std::chrono::steady_clock::now();
  Command command(run({}, {"sleep"}), mark_, true);
  ASSERT_TRUE(command.until("ready", 4));
  const auto at = command.out().find("me=");
  ASSERT_NE(at, std::string::npos);
  ::kill(std::stoi(command.out().substr(at + 3)), SIGKILL);
  EXPECT_EQ(command.finish(), 255) << command.out();
  EXPECT_TRUE(test::all_gone(mark_["TEST_MARK"]));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20)) << "its part was waited for";
}

TEST_F(ThroughFakeSsh, AJobWhoseHostsAreAllLostFailsThoughItKeepsGoing) {
  make_ssh("echo me=$$= >&2; exec sh -c \"$*\"");
  Command command(run({"--keep-going"}, {"sleep"}), mark_, true);
  ASSERT_TRUE(command.until("ready", 4));
  for (auto at = command.out().find("me="); at != std::string::npos; at = command.out().find("me=", at + 1))
    ::kill(std::stoi(command.out().substr(at + 3)), SIGKILL);
  EXPECT_EQ(command.finish(), 255) << command.out();
  EXPECT_TRUE(test::all_gone(mark_["TEST_MARK"]));
}

TEST_F(ThroughFakeSsh, WhatARankLeavesBehindLivesAsLongAsTheJob) {
  const std::string script =
      "if [ $RANK = 0 ]; then sleep 1000 & echo $! >$0; else sleep 2; kill -0 $(cat $0); fi";
  Command command({KOLO_PROGRAM, "run", "--hosts", "localhost,127.0.0.1", "--ssh", folder_ + "/ssh", "--",
                   "sh", "-c", script, folder_ + "/left"},
                  mark_);
  EXPECT_EQ(command.finish(), 0) << command.err();
}

TEST_F(ThroughFakeSsh, AQuickHostHearsOfUsWhileASlowOneLogsIn) {
  const std::string heard = folder_ + "/heard";
  make_ssh("if [ $host = localhost ]; then tee " + heard +
           " | sh -c \"$*\"; else sleep 2.5; exec sh -c \"$*\"; fi");
  Command command(run({}, {"environment", "RANK"}), mark_);
  EXPECT_EQ(command.finish(), 0) << command.err();
  EXPECT_EQ(std::ifstream(heard).get(), static_cast<int>(RecordKind::alive)) << "before its job";
}

TEST_F(ThroughFakeSsh, AReaderWhoPausesDoesNotHideAFailure) {
  const std::string errors = folder_ + "/errors";
  std::vector<std::string> all = {"sh", "-c", "exec \"$@\" 2>" + errors, "sh"};
  const auto program = run({}, {"flood", "7"});
  all.insert(all.end(), program.begin(), program.end());
  Command command(all, mark_);
  std::string told;
  for (int i = 0; i < 100 && told.find(" exited with code 7") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::ostringstream text;
    text << std::ifstream(errors).rdbuf();
    told = text.str();
  }
  EXPECT_NE(told.find(" exited with code 7"), std::string::npos) << "with nobody reading standard output";
  EXPECT_EQ(command.finish(), 7);
  const std::string line = "[0] more and more and more\n";
  std::string_view rest = command.out();
  while (rest.starts_with(line)) rest.remove_prefix(line.size());
  EXPECT_LT(rest.size(), line.size()) << "only the last line may be cut";
}

TEST_F(ThroughFakeSsh, DoctorExaminesTheHosts) {
  Command command({KOLO_PROGRAM, "doctor", "--hosts", "localhost,127.0.0.1", "--ssh", folder_ + "/ssh"});
  EXPECT_EQ(command.finish(), 0) << command.err();
  EXPECT_NE(command.out().find("2 of 2 ranks on 1 host"), std::string::npos) << command.out();
  EXPECT_NE(command.out().find("\n  localhost  0,1 "), std::string::npos) << "as the user names it";
  Command both({KOLO_PROGRAM, "doctor", "-n", "3", "--hosts", "localhost"});
  EXPECT_EQ(both.finish(), 2) << both.out();
  Command unknown({KOLO_PROGRAM, "doctor", "--hosts", "no-such-host.invalid"});
  EXPECT_EQ(unknown.finish(), 1);
  EXPECT_TRUE(unknown.err().starts_with("kolo: the host name \"no-such-host.invalid\" is not known"))
      << unknown.err();
}

TEST_F(ThroughFakeSsh, ATildeMeansWhatItDoesThere) {
  std::filesystem::create_symlink(KOLO_PROGRAM, folder_ + "/my kolo");
  mark_["HOME"] = folder_;
  Command command(run({"--remote-kolo", "~/my kolo"}, {"environment", "RANK"}), mark_);
  EXPECT_EQ(command.finish(), 0) << command.err();
  Command doctor({KOLO_PROGRAM, "doctor", "--hosts", "localhost", "--ssh", folder_ + "/ssh", "--remote-kolo",
                  "~/my kolo"},
                 mark_);
  EXPECT_EQ(doctor.finish(), 0) << doctor.err();
}

}  // namespace
}  // namespace kolo::cli
