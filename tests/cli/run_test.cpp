// kolo run: the ranks' environment and output, and that no process is left behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "base/cores.hpp"
#include "command.hpp"
#include "survivors.hpp"

namespace kolo {
namespace {

using std::chrono::milliseconds;
using test::Command;
using test::survivors;

std::vector<std::string> run(int ranks, std::vector<std::string> program,
                             const std::vector<std::string>& options = {}) {
  std::vector<std::string> all = {KOLO_PROGRAM, "run", "-n", std::to_string(ranks)};
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), {"--", RANK_PROGRAM});
  all.insert(all.end(), program.begin(), program.end());
  return all;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class KoloRun : public ::testing::Test {
 protected:
  KoloRun() { mark_["TEST_MARK"] = std::to_string(::getpid()) + "-" + std::to_string(++tests_); }
  void SetUp() override { ::alarm(100); }
  void TearDown() override {
    EXPECT_EQ(survivors(mark_["TEST_MARK"]), 0) << "processes were left behind";
    ::alarm(0);
  }
  bool all_gone() const { return test::all_gone(mark_.at("TEST_MARK")); }

  static inline int tests_ = 0;
  std::map<std::string, std::string> mark_;
};

TEST_F(KoloRun, GivesEachRankItsPlace) {
  mark_["OMP_NUM_THREADS"] = "7";
  Command command(run(3,
                      {"environment", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                       "KOLO_STORE_SERVED", "OMP_NUM_THREADS", "TEST_MARK", "FRUIT"},
                      {"-x", "FRUIT=pear"}),
                  mark_);
  EXPECT_EQ(command.finish(), 0) << command.err();
  std::multiset<std::string> expected;
  for (const std::string r : {"0", "1", "2"}) {
    for (const std::string& entry :
         {"RANK=" + r, std::string("WORLD_SIZE=3"), "LOCAL_RANK=" + r, std::string("LOCAL_WORLD_SIZE=3"),
          std::string("MASTER_ADDR=127.0.0.1"), std::string("KOLO_STORE_SERVED=1"),
          std::string("OMP_NUM_THREADS=7"), "TEST_MARK=" + mark_["TEST_MARK"], std::string("FRUIT=pear")}) {
      expected.insert("[" + r + "] " + entry);
    }
  }
  const auto lines = lines_of(command.out());
  EXPECT_EQ(std::multiset<std::string>(lines.begin(), lines.end()), expected);
  EXPECT_EQ(command.err(), "");
}

TEST_F(KoloRun, GivesAllRanksOneStoreOneKeyAndAPort) {
  Command command(run(2, {"environment", "KOLO_STORE", "KOLO_KEY", "MASTER_PORT"}, {"--no-prefix"}), mark_);
  EXPECT_EQ(command.finish(), 0);
  const auto lines = lines_of(command.out());
  ASSERT_EQ(lines.size(), 6u);
  const std::set<std::string> distinct(lines.begin(), lines.end());
  ASSERT_EQ(distinct.size(), 3u) << "the ranks disagree: " << command.out();
  for (const std::string& line : distinct) {
    const bool right = line.starts_with("KOLO_KEY=") ? line.size() == 9 + 64
                                                     : line.starts_with("KOLO_STORE=tcp://127.0.0.1:") ||
                                                           line.starts_with("MASTER_PORT=");
    EXPECT_TRUE(right) << line;
  }
}

TEST_F(KoloRun, SettingsThatAreNotUsedDoNoHarm) {
  const std::map<std::string, std::string> senseless = {{"KOLO_TIMEOUT", "soon"},
                                                        {"KOLO_KEY_FILE", "/no/such/file"}};
  Command help({KOLO_PROGRAM, "--help"}, senseless);
  EXPECT_EQ(help.finish(), 0) << help.err();
  Command plan({KOLO_PROGRAM, "plan", "all_reduce", "--bytes", "8"}, senseless);
  EXPECT_EQ(plan.finish(), 2);
  EXPECT_NE(plan.err().find("KOLO_TIMEOUT"), std::string::npos) << plan.err();
  // The job has a key of its own.
  mark_["KOLO_KEY"] = "ours";
  mark_["KOLO_KEY_FILE"] = "/no/such/file";
  Command job(run(1, {"environment", "KOLO_KEY_FILE"}, {"--no-prefix"}), mark_);
  EXPECT_EQ(job.finish(), 0) << job.err();
  EXPECT_EQ(job.out(), "KOLO_KEY_FILE=(unset)\n");
}

TEST_F(KoloRun, OneThreadARankOnlyWhereNobodySaidOtherwise) {
  ::unsetenv("OMP_NUM_THREADS");
  Command two(run(2, {"environment", "OMP_NUM_THREADS"}, {"--no-prefix"}), mark_);
  EXPECT_EQ(two.finish(), 0);
  EXPECT_EQ(two.out(), "OMP_NUM_THREADS=1\nOMP_NUM_THREADS=1\n");
  Command one(run(1, {"environment", "OMP_NUM_THREADS"}, {"--no-prefix"}), mark_);
  EXPECT_EQ(one.finish(), 0);
  EXPECT_EQ(one.out(), "OMP_NUM_THREADS=(unset)\n");
}

/// Runs a shell script in which $1 is KOLO_PROGRAM and $2 the test's program.
std::vector<std::string> shell(const std::string& line) {
  return {"sh", "-c", line, "sh", KOLO_PROGRAM, RANK_PROGRAM};
}

TEST_F(KoloRun, OutputThatCannotBeWrittenIsAnError) {
  for (const char* line :
       {"$1 --help >/dev/full", "$1 check all_reduce --ranks 2 >/dev/full",
        "$1 run -n 1 -- $2 both >/dev/full", "$1 run -n 2 -- $2 sleep >/dev/full",
        "$1 bench all_reduce --ranks 2 --sizes 8 --iterations 1 --transport inproc --json /dev/full"}) {
    Command command(shell(line), mark_);
    EXPECT_EQ(command.finish(), 1) << line << command.err();
    EXPECT_NE(command.err().find("cannot write"), std::string::npos) << line << command.err();
  }
}

TEST_F(KoloRun, PassesArgumentsUntouched) {
  const std::vector<std::string> odd = {"arguments",   "",   "a b",   "-n", "3",
                                        "--no-prefix", "--", "[a,b]", "%",  "--x=1"};
  std::string expected;
  for (std::size_t i = 1; i < odd.size(); ++i) expected += "[0] <" + odd[i] + ">\n";
  Command marked(run(1, odd), mark_);
  EXPECT_EQ(marked.finish(), 0);
  EXPECT_EQ(marked.out(), expected);
  auto arguments = run(1, odd);
  arguments.erase(std::find(arguments.begin(), arguments.end(), "--"));
  Command bare(arguments, mark_);
  EXPECT_EQ(bare.finish(), 0);
  EXPECT_EQ(bare.out(), expected);
}

TEST_F(KoloRun, KeepsTheStreamsApartAndTheInputEmpty) {
  Command both(run(1, {"both"}), mark_);
  EXPECT_EQ(both.finish(), 0);
  EXPECT_EQ(both.out(), "[0] to stdout\n");
  EXPECT_EQ(both.err(), "[0] to stderr\n");
  Command input(run(1, {"input"}), mark_);
  EXPECT_EQ(input.finish(), 0);
  EXPECT_EQ(input.out(), "[0] read 0 bytes\n");
}

TEST_F(KoloRun, ReportsTheExitCodeOfTheRankThatFailed) {
  Command command(run(4, {"fail", "2", "3"}), mark_);
  EXPECT_EQ(command.finish(), 3);
  EXPECT_NE(command.err().find("kolo: rank 2 (pid "), std::string::npos) << command.err();
  EXPECT_NE(command.err().find(") exited with code 3; stopping the other 3 [K903]\n"), std::string::npos)
      << command.err();
}

TEST_F(KoloRun, ReportsTheSignalThatKilledARank) {
  Command command(run(4, {"die", "1", "9"}), mark_);
  EXPECT_EQ(command.finish(), 128 + 9);
  EXPECT_NE(command.err().find("kolo: rank 1 (pid "), std::string::npos) << command.err();
  EXPECT_NE(command.err().find(") was killed by signal 9 (Killed); stopping the other 3 [K903]\n"),
            std::string::npos)
      << command.err();
}

TEST_F(KoloRun, RanksReportWhichOneTheyLost) {
  Command command({KOLO_PROGRAM, "run", "-n", "3", LOST_PROGRAM}, mark_);
  EXPECT_EQ(command.finish(), 128 + SIGKILL);
  for (const char* rank : {"[0] ", "[1] "})
    EXPECT_NE(command.err().find(std::string(rank) + "lost rank 2"), std::string::npos) << command.err();
}

TEST_F(KoloRun, AnErrorThatIsNotCaughtIsShownWithItsRank) {
  Command command(run(1, {"uncaught"}), mark_);
  EXPECT_EQ(command.finish(), 128 + SIGABRT);
  EXPECT_NE(command.err().find("[0]   what():  lost rank 1 in all_reduce\n"), std::string::npos)
      << command.err();
  EXPECT_NE(command.err().find("(Aborted) after an error that it did not catch"), std::string::npos)
      << command.err();
}

/// True once the process has ended and waits for its parent.
bool is_zombie(const std::string& pid) {
  std::ostringstream stat;
  stat << std::ifstream("/proc/" + pid + "/stat").rdbuf();
  return stat.str().find(") Z") != std::string::npos;
}

TEST_F(KoloRun, ARankThatAbortsOverALostOneIsNotTheCause) {
  Command command(run(2, {"consequence"}, {"--no-prefix"}), mark_);
  ASSERT_TRUE(command.until("is ready", 2)) << command.err();
  ::kill(command.pid(), SIGSTOP);  // so that it sees both ends at once
  std::vector<std::string> ranks;
  for (const std::string& line : lines_of(command.out())) {
    ranks.push_back(line.substr(0, line.find(' ')));
    ::kill(std::stoi(ranks.back()), SIGUSR1);
  }
  for (const std::string& rank : ranks) {
    while (!is_zombie(rank)) std::this_thread::sleep_for(milliseconds(5));
  }
  ::kill(command.pid(), SIGCONT);
  EXPECT_EQ(command.finish(), 3) << command.err();
}

TEST_F(KoloRun, KeepsGoingWhereItIsTold) {
  const auto job = [&](const std::string& what) {
    return Command({KOLO_PROGRAM, "run", "-n", "3", "--no-prefix", "--keep-going", "--", "sh", "-c", what},
                   mark_);
  };
  Command survived =
      job("[ $RANK = 1 ] && kill -9 $$; [ $RANK = 2 ] && sleep 0.3 && exit 4; sleep 0.6; echo fine");
  EXPECT_EQ(survived.finish(), 0) << survived.err();
  EXPECT_EQ(survived.out(), "fine\n");
  EXPECT_NE(survived.err().find("killed by signal 9 (Killed); 2 ranks go on"), std::string::npos)
      << survived.err();
  EXPECT_NE(survived.err().find("exited with code 4; 1 rank goes on"), std::string::npos) << survived.err();
  Command failed = job("sleep 0.$RANK; exit $((RANK + 5))");
  EXPECT_EQ(failed.finish(), 5) << failed.err();
  Command nowhere({KOLO_PROGRAM, "run", "-n", "3", "--keep-going", "--", "/no/such/program"}, mark_);
  EXPECT_EQ(nowhere.finish(), 127);
  Command interrupted = job("sleep 60");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(interrupted.pid(), SIGINT);
  EXPECT_EQ(interrupted.finish(), 130);
}

TEST_F(KoloRun, KillsRanksThatDoNotStopInTheGrace) {
  const auto began = std::chrono::steady_clock::now();
  Command command(run(3, {"stubborn"}, {"--grace", "0.3"}), mark_);
  EXPECT_EQ(command.finish(), 5);
  EXPECT_NE(command.err().find("2 ranks did not stop in time"), std::string::npos) << command.err();
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(500));
}

TEST_F(KoloRun, PassesSignalsOn) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    Command command(run(3, {"report-signal"}), mark_);
    ASSERT_TRUE(command.until("ready", 3));
    ::kill(command.pid(), signal);
    const bool stops = signal != SIGUSR1 && signal != SIGUSR2;
    EXPECT_EQ(command.finish(), stops ? 128 + signal : 0) << command.err();
    EXPECT_EQ(Command::count(command.out(), "heard " + std::to_string(signal) + "\n"), 3) << command.out();
  }
}

TEST_F(KoloRun, WhatWasIgnoredStaysIgnored) {
  std::vector<std::string> all = {"sh", "-c", "trap '' INT; exec \"$@\"", "sh"};
  const auto program = run(2, {"sleep"});
  all.insert(all.end(), program.begin(), program.end());
  Command command(all, mark_);
  ASSERT_TRUE(command.until("ready", 2));
  ::kill(command.pid(), SIGINT);
  ::kill(command.pid(), SIGTERM);
  EXPECT_EQ(command.finish(), 128 + SIGTERM);
}

TEST_F(KoloRun, SigintEndsOrdinaryRanks) {
  Command command(run(4, {"sleep"}), mark_);
  ASSERT_TRUE(command.until("ready", 4));
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.finish(), 128 + SIGINT);
}

/// A limit far below the grace of a thousand seconds.
void expect_two_sigints_to_end(Command& command, std::chrono::steady_clock::time_point began) {
  ::kill(command.pid(), SIGINT);
  std::this_thread::sleep_for(milliseconds(200));
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.finish(), 128 + SIGINT);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(50));
}

TEST_F(KoloRun, ASecondSigintKillsAtOnce) {
  const auto began = std::chrono::steady_clock::now();
  Command command(run(2, {"deaf"}, {"--grace", "1000"}), mark_);
  ASSERT_TRUE(command.until("ready", 2));
  expect_two_sigints_to_end(command, began);
}

TEST_F(KoloRun, ASecondSigintKillsWhatRanksLeftBehindToo) {
  const auto began = std::chrono::steady_clock::now();
  Command command(run(1, {"family", "1"}, {"--grace", "1000"}), mark_);
  ASSERT_TRUE(command.until("ready", 1));
  while (survivors(mark_["TEST_MARK"]) > 3) {  // launcher, watchdog, and the rank that ignores SIGTERM
    std::this_thread::sleep_for(milliseconds(10));
  }
  expect_two_sigints_to_end(command, began);
}

TEST_F(KoloRun, ASignalWaitsForNoReader) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Command command(run(2, {"spam", "100000000"}), mark_);
    ASSERT_TRUE(command.until("[0]", 1));
    std::this_thread::sleep_for(milliseconds(300));  // every pipe is full by now
    ::kill(command.pid(), signal);
    EXPECT_TRUE(all_gone()) << signal;
    EXPECT_EQ(command.finish(), 128 + signal);
  }
}

TEST_F(KoloRun, StopsARankThatIsStopped) {
  Command command(run(2, {"die", "0", std::to_string(SIGSTOP)}, {"--grace", "50"}), mark_);
  std::this_thread::sleep_for(milliseconds(300));
  const auto told = std::chrono::steady_clock::now();
  ::kill(command.pid(), SIGTERM);
  EXPECT_EQ(command.finish(), 128 + SIGTERM);
  EXPECT_LT(std::chrono::steady_clock::now() - told, std::chrono::seconds(40)) << "it did not hear SIGTERM";
}

TEST_F(KoloRun, AKilledLauncherLeavesNothing) {
  Command command(run(3, {"family", "0"}), mark_);
  ASSERT_TRUE(command.until("ready", 3));
  EXPECT_GE(survivors(mark_["TEST_MARK"]), 3 * 3);
  ::kill(command.pid(), SIGKILL);
  EXPECT_EQ(command.finish(), 1000 + SIGKILL);
  EXPECT_TRUE(all_gone());
}

TEST_F(KoloRun, AKilledLauncherLeavesNothingOfALauncherInside) {
  // In a shell, so that the inner launcher is ended by the watchdog, and not by the end of the outer
  // launcher.
  Command command({KOLO_PROGRAM, "run", "-n", "1", "sh", "-c",
                   std::string(KOLO_PROGRAM) + " run -n 2 " RANK_PROGRAM " family 0; true"},
                  mark_);
  ASSERT_TRUE(command.until("ready", 2));
  ::kill(command.pid(), SIGKILL);
  EXPECT_EQ(command.finish(), 1000 + SIGKILL);
  EXPECT_TRUE(all_gone());
}

TEST_F(KoloRun, GrandchildrenGoWithTheJob) {
  Command interrupted(run(2, {"family", "0"}, {"--grace", "0.3"}), mark_);
  ASSERT_TRUE(interrupted.until("ready", 2));
  ::kill(interrupted.pid(), SIGINT);
  EXPECT_EQ(interrupted.finish(), 128 + SIGINT);
  EXPECT_EQ(survivors(mark_["TEST_MARK"]), 0);
  Command successful(run(2, {"family", "1"}, {"--grace", "0.3"}), mark_);
  EXPECT_EQ(successful.finish(), 0) << successful.err();
  EXPECT_EQ(survivors(mark_["TEST_MARK"]), 0);
}

TEST_F(KoloRun, NeverMixesLines) {
  constexpr int kRanks = 8;
  constexpr int kLines = 400;
  Command command(run(kRanks, {"spam", std::to_string(kLines)}), mark_, true);
  EXPECT_EQ(command.finish(), 0);
  std::map<std::string, int> counts;
  for (const std::string& line : lines_of(command.out())) ++counts[line];
  EXPECT_EQ(counts.size(), std::size_t{kRanks});
  for (int r = 0; r < kRanks; ++r) {
    const std::string line = "[" + std::to_string(r) + "] " + std::string(997, static_cast<char>('a' + r));
    EXPECT_EQ(counts[line], kLines) << "rank " << r;
  }
}

TEST_F(KoloRun, EndsLinesThatHaveNoEnd) {
  Command prefixed(run(2, {"partial"}), mark_);
  EXPECT_EQ(prefixed.finish(), 0);
  EXPECT_EQ(Command::count(prefixed.out(), "] no newline at the end\n"), 2) << prefixed.out();
  Command plain(run(1, {"partial"}, {"--no-prefix"}), mark_);
  EXPECT_EQ(plain.finish(), 0);
  EXPECT_EQ(plain.out(), "no newline at the end");
}

TEST_F(KoloRun, ShowsTheLastStateOfAProgressLine) {
  Command command(run(1, {"progress"}), mark_);
  EXPECT_EQ(command.finish(), 0);
  EXPECT_EQ(command.out(), "[0] done\n[0] windows\n[0] leading 2\n");
}

TEST_F(KoloRun, TakesHugeLines) {
  Command whole(run(1, {"long-line", "900000"}), mark_);
  EXPECT_EQ(whole.finish(), 0);
  EXPECT_EQ(whole.out(), "[0] " + std::string(900'000, 'x') + "\n");
  Command broken(run(1, {"long-line", "5000000"}), mark_);
  EXPECT_EQ(broken.finish(), 0);
  EXPECT_EQ(std::count(broken.out().begin(), broken.out().end(), 'x'), 5'000'000);
}

TEST_F(KoloRun, HugeLinesStayWholeWithoutAPrefix) {
  Command alone(run(1, {"long-line", "5000000"}, {"--no-prefix"}), mark_);
  EXPECT_EQ(alone.finish(), 0);
  EXPECT_TRUE(alone.out() == std::string(5'000'000, 'x') + "\n");
}

TEST_F(KoloRun, RanksMayCloseTheirOutput) {
  Command command(run(2, {"close", "4"}), mark_);
  EXPECT_EQ(command.finish(), 4) << command.err();
}

TEST_F(KoloRun, StopsWhenNobodyListens) {
  Command command(run(2, {"spam", "100000000"}), mark_);
  ASSERT_TRUE(command.until("[0]", 10));
  command.hang_up();
  EXPECT_EQ(command.finish(), 128 + SIGPIPE);
}

TEST_F(KoloRun, HearsSignalsWhileItsReaderSleeps) {
  Command command(run(2, {"spam", "100000000"}), mark_);
  ASSERT_TRUE(command.until("[0]", 1));
  std::this_thread::sleep_for(milliseconds(300));  // every pipe is full by now
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.finish(), 128 + SIGINT);
}

TEST_F(KoloRun, ALongPauseOfItsReaderLosesNothing) {
  Command command(run(1, {"fill"}, {"--no-prefix", "--grace", "0"}), mark_);
  ::fcntl(command.out_fd(), F_SETPIPE_SZ,
          1 << 20);  // so that all bytes queued in the launcher can be read at once
  std::this_thread::sleep_for(milliseconds(11'500));  // longer than the wait for processes that do not end
  EXPECT_EQ(command.finish(), 0);
  EXPECT_EQ(std::to_string(command.out().size()), command.err());
}

TEST_F(KoloRun, StartsManyRanks) {
  Command command(run(64, {"environment", "RANK"}), mark_);
  EXPECT_EQ(command.finish(), 0) << command.err();
  const auto lines = lines_of(command.out());
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()).size(), 64u);
}

TEST_F(KoloRun, SaysWhyAProgramCannotBeStarted) {
  const std::string script = ::testing::TempDir() + "/kolo-no-interpreter-" + std::to_string(::getpid());
  std::ofstream(script) << "#!/no/such/interpreter\n";
  ::chmod(script.c_str(), 0755);
  for (const std::string& program :
       {std::string("no-such-program"), std::string("/etc/hostname"), std::string("/"), script}) {
    Command command({KOLO_PROGRAM, "run", "-n", "2", program}, mark_);
    EXPECT_EQ(command.finish(), 127) << program;
    EXPECT_NE(command.err().find("kolo: cannot start "), std::string::npos) << command.err();
    EXPECT_NE(command.err().find(program), std::string::npos) << command.err();
    EXPECT_EQ(lines_of(command.err()).size(), 1u) << command.err();
    if (program == script) {
      EXPECT_NE(command.err().find("/no/such/interpreter"), std::string::npos);
    }
  }
  ::unlink(script.c_str());
  Command many({"sh", "-c", "ulimit -n 24; exec " KOLO_PROGRAM " run -n 8 sleep 1000"}, mark_);
  EXPECT_EQ(many.finish(), 127);
  EXPECT_NE(many.err().find("ulimit -n"), std::string::npos) << many.err();
}

TEST_F(KoloRun, WrongUsageIsOneClearLineAndCode2) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"run"}, "--ranks"},
      {{"run", "-n", "2", "--hosts", "a:2", "true"}, "exclude each other"},
      {{"run", "-n", "2"}, "PROGRAM"},
      {{"run", "-n", "0", "true"}, "--ranks"},
      {{"run", "-n", "two", "true"}, "--ranks"},
      {{"run", "-n", "2", "--nonsense", "true"}, "--nonsense"},
      {{"run", "-n", "1", "--grace", "nan", "true"}, "--grace"},
      {{"dance"}, "dance"}};
  for (const auto& [arguments, mention] : cases) {
    std::vector<std::string> all = {KOLO_PROGRAM};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Command command(all, mark_);
    EXPECT_EQ(command.finish(), 2) << mention;
    EXPECT_EQ(lines_of(command.err()).size(), 1u) << command.err();
    EXPECT_NE(command.err().find(mention), std::string::npos) << command.err();
    EXPECT_EQ(command.out(), "");
  }
  Command help({KOLO_PROGRAM, "--help"}, mark_);
  EXPECT_EQ(help.finish(), 0);
  EXPECT_NE(help.out().find("Exit codes"), std::string::npos);
}

TEST_F(KoloRun, TakesNumbersOfRanksAsMpirunDoes) {
  Command two({KOLO_PROGRAM, "run", "-np", "2", "--no-prefix", RANK_PROGRAM, "environment", "WORLD_SIZE"},
              mark_);
  EXPECT_EQ(two.finish(), 0) << two.err();
  EXPECT_EQ(two.out(), "WORLD_SIZE=2\nWORLD_SIZE=2\n");
  Command all({KOLO_PROGRAM, "run", "-n", "auto", "--no-prefix", RANK_PROGRAM, "environment", "WORLD_SIZE"},
              mark_);
  EXPECT_EQ(all.finish(), 0) << all.err();
  const std::string cores = std::to_string(usable_cores().count());
  EXPECT_EQ(Command::count(all.out(), "WORLD_SIZE=" + cores + "\n"), usable_cores().count()) << all.out();
}

TEST_F(KoloRun, RunsInsideItself) {
  Command command(
      {KOLO_PROGRAM, "run", "-n", "2", KOLO_PROGRAM, "run", "-n", "2", RANK_PROGRAM, "environment", "RANK"},
      mark_);
  EXPECT_EQ(command.finish(), 0) << command.err();
  const auto lines = lines_of(command.out());
  EXPECT_EQ(
      std::multiset<std::string>(lines.begin(), lines.end()),
      (std::multiset<std::string>{"[0] [0] RANK=0", "[0] [1] RANK=1", "[1] [0] RANK=0", "[1] [1] RANK=1"}));
}

}  // namespace
}  // namespace kolo
