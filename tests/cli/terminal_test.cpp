// kolo run on a terminal: its ranks have terminals too, print line by line, and nothing is lost or changed.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "command.hpp"
#include "support/temporary_folder.hpp"
#include "survivors.hpp"

namespace kolo {
namespace {

using test::Command;

/// A program whose standard streams are a terminal that passes bytes on unchanged.
class OnTerminal {
 public:
  explicit OnTerminal(std::vector<std::string> arguments,
                      const std::map<std::string, std::string>& variables = {}) {
    termios mode{};
    ::cfmakeraw(&mode);
    mode.c_cflag |= CREAD;
    ::cfsetspeed(&mode, B38400);
    winsize size{.ws_row = 40, .ws_col = 120, .ws_xpixel = 0, .ws_ypixel = 0};
    pid_ = ::forkpty(&terminal_, nullptr, &mode, &size);
    if (pid_ != 0) return;
    ::unsetenv("NO_COLOR");
    for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> list;
    for (std::string& argument : arguments) list.push_back(argument.data());
    list.push_back(nullptr);
    ::execvp(list[0], list.data());
    ::_exit(126);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;
  ~OnTerminal() { ::close(terminal_); }

  pid_t pid() const { return pid_; }
  const std::string& out() const { return text_; }
  void resize(unsigned short rows, unsigned short columns) const {
    const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(terminal_, TIOCSWINSZ, &size);
  }
  bool until(const std::string& text, int times = 1) {
    while (Command::count(text_, text) < times) {
      if (!read_some()) return false;
    }
    return true;
  }
  /// The exit code, or 1000 + the signal.
  int finish() {
    while (read_some()) {
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

 private:
  bool read_some() {
    std::array<char, 1 << 16> block;
    const ssize_t got = ::read(terminal_, block.data(), block.size());
    if (got > 0) text_.append(block.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  int terminal_ = -1;
  pid_t pid_ = -1;
  std::string text_;
};

class Terminal : public ::testing::Test {
 protected:
  Terminal() {
    mark_["TEST_MARK"] = "terminal-" + std::to_string(::getpid()) + "-" + std::to_string(++tests_);
  }
  void SetUp() override { ::alarm(100); }
  void TearDown() override {
    EXPECT_EQ(test::survivors(mark_["TEST_MARK"]), 0) << "processes were left behind";
    ::alarm(0);
  }

  static std::vector<std::string> run(int ranks, const std::vector<std::string>& program,
                                      const std::vector<std::string>& options = {}) {
    std::vector<std::string> all = {KOLO_PROGRAM, "run"};
    if (ranks > 0) all.insert(all.end(), {"-n", std::to_string(ranks)});
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", RANK_PROGRAM});
    all.insert(all.end(), program.begin(), program.end());
    return all;
  }
  /// The same through a shell that redirects: `line` names the command "$@".
  static std::vector<std::string> through_shell(const std::string& line,
                                                const std::vector<std::string>& command) {
    std::vector<std::string> all = {"sh", "-c", line, "sh"};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }

  static inline int tests_ = 0;
  std::map<std::string, std::string> mark_ = {{"NO_COLOR", "1"}};
};

TEST_F(Terminal, LinesOfAKilledRankHaveArrived) {
  OnTerminal command(run(2, {"unflushed", std::to_string(SIGKILL)}), mark_);
  EXPECT_EQ(command.finish(), 128 + SIGKILL);
  // The first rank that dies ends the other, perhaps before it prints. Their lines may alternate.
  const auto has_lines = [&](const std::string& rank) {
    const std::string& out = command.out();
    std::size_t place = 0;
    for (const char* line : {" line 0\n", " line 1\n", " line 2\n"})
      place = place == std::string::npos ? place : out.find(rank + line, place);
    return place != std::string::npos;
  };
  EXPECT_TRUE(has_lines("[0]") || has_lines("[1]")) << command.out();
}

TEST_F(Terminal, LinesAreShownWhileTheRankRuns) {
  OnTerminal command(run(2, {"unflushed"}), mark_);
  ASSERT_TRUE(command.until("line 2\n", 2)) << command.out();
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.finish(), 128 + SIGINT);
}

TEST_F(Terminal, ARankHasTerminalsWhereItsLauncherHas) {
  const auto command = run(1, {"terminals"});
  const auto seen = [&](const std::vector<std::string>& started) {
    OnTerminal one(started, mark_);
    EXPECT_EQ(one.finish(), 0) << one.out();
    return one.out();
  };
  // The prefix takes four columns. It stays in the session of its launcher, in a group of its own.
  EXPECT_EQ(seen(command), "[0] terminals 011, 40 x 116, group 1, session 0\n");
  EXPECT_EQ(seen(run(1, {"terminals"}, {"--no-prefix"})), "terminals 011, 40 x 120, group 1, session 0\n");
  EXPECT_EQ(seen(through_shell("\"$@\" 2>/dev/null", command)),
            "[0] terminals 010, 40 x 116, group 1, session 0\n");
  EXPECT_EQ(seen(through_shell("\"$@\" | cat", command)), "[0] terminals 001, 0 x 0, group 1, session 0\n");
  Command piped(command, mark_);
  EXPECT_EQ(piped.finish(), 0);
  EXPECT_EQ(piped.out(), "[0] terminals 000, 0 x 0, group 1, session 0\n");
}

TEST_F(Terminal, ANewSizeReachesTheRanks) {
  OnTerminal command(run(2, {"resized"}), mark_);
  ASSERT_TRUE(command.until("ready", 2)) << command.out();
  command.resize(30, 90);
  EXPECT_EQ(command.finish(), 0);
  EXPECT_EQ(Command::count(command.out(), "] terminals 011, 30 x 86,"), 2) << command.out();
}

TEST_F(Terminal, RanksOfOtherHostsHaveThemToo) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "ssh") << "#!/bin/sh\n"
                                   "while :; do case $1 in -o) shift 2;; -*) shift;; *) break;; esac; done\n"
                                   "shift; exec sh -c \"$*\" \n";
  ::chmod((folder / "ssh").c_str(), 0755);
  const std::vector<std::string> hosts = {"--hosts", "localhost:2,127.0.0.1:2", "--ssh", folder / "ssh"};
  OnTerminal command(run(0, {"terminals"}, hosts), mark_);
  EXPECT_EQ(command.finish(), 0) << command.out();
  EXPECT_EQ(Command::count(command.out(), "] terminals 011, 40 x 116,"), 4) << command.out();
  OnTerminal resized(run(0, {"resized"}, hosts), mark_);
  ASSERT_TRUE(resized.until("ready", 4)) << resized.out();
  resized.resize(30, 90);
  EXPECT_EQ(resized.finish(), 0) << resized.out();
  EXPECT_EQ(Command::count(resized.out(), "] terminals 011, 30 x 86,"), 4) << resized.out();
  OnTerminal killed(run(0, {"unflushed", std::to_string(SIGKILL)}, hosts), mark_);
  EXPECT_EQ(killed.finish(), 128 + SIGKILL);
  EXPECT_GE(Command::count(killed.out(), "line 2\n"), 1) << killed.out();
}

TEST_F(Terminal, BurstsOfManyRanksArriveWhole) {
  constexpr int kRanks = 8;
  constexpr int kLines = 1100;  // more than a megabyte, from both streams
  OnTerminal command(run(kRanks, {"spam", std::to_string(kLines)}), mark_);
  EXPECT_EQ(command.finish(), 0);
  std::map<std::string, int> counts;
  std::istringstream lines(command.out());
  for (std::string line; std::getline(lines, line);) ++counts[line];
  EXPECT_EQ(counts.size(), std::size_t{kRanks});
  for (int r = 0; r < kRanks; ++r) {
    const std::string line = "[" + std::to_string(r) + "] " + std::string(997, static_cast<char>('a' + r));
    EXPECT_EQ(counts[line], kLines) << "rank " << r;
  }
}

TEST_F(Terminal, BytesAreNotChanged) {
  constexpr int kLines = 4000;
  std::string line;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte != '\n' && byte != '\r') line += static_cast<char>(byte);
  }
  std::string expected;
  for (int i = 0; i < kLines; ++i) expected += line + '\n';
  const auto command = run(1, {"bytes", std::to_string(kLines)}, {"--no-prefix"});
  OnTerminal terminal(command, mark_);
  EXPECT_EQ(terminal.finish(), 0);
  EXPECT_TRUE(terminal.out() == expected) << terminal.out().size() << " of " << expected.size();
  Command pipe(command, mark_);
  EXPECT_EQ(pipe.finish(), 0);
  EXPECT_TRUE(pipe.out() == expected) << pipe.out().size() << " of " << expected.size();
}

TEST_F(Terminal, TheEndOfARankIsSeenWhateverHoldsItsTerminal) {
  OnTerminal closed(run(2, {"close", "4"}), mark_);
  EXPECT_EQ(closed.finish(), 4) << closed.out();
  OnTerminal family(run(2, {"family", "1"}, {"--grace", "0.3"}), mark_);
  EXPECT_EQ(family.finish(), 0) << family.out();
}

TEST_F(Terminal, CtrlCReachesTheLauncherAlone) {
  OnTerminal command(run(2, {"report-signal"}), mark_);
  ASSERT_TRUE(command.until("ready", 2));
  // The terminal is raw, so the test sends what Ctrl-C sends: a signal to the group of its foreground.
  ::kill(-command.pid(), SIGINT);
  EXPECT_EQ(command.finish(), 128 + SIGINT) << command.out();
  EXPECT_EQ(Command::count(command.out(), "heard " + std::to_string(SIGINT)), 2) << command.out();
}

TEST_F(Terminal, WithoutPseudoTerminalsThereArePipes) {
  Command allowed(
      {"unshare", "--user", "--map-root-user", "--mount", "mount", "--bind", "/dev/null", "/dev/ptmx"});
  if (allowed.finish() != 0) GTEST_SKIP() << "no namespaces here: " << allowed.err();
  std::vector<std::string> command = {"unshare", "--user", "--map-root-user", "--mount"};
  for (const std::string& word :
       through_shell("mount --bind /dev/null /dev/ptmx && exec \"$@\"", run(2, {"terminals"})))
    command.push_back(word);
  OnTerminal started(command, mark_);
  EXPECT_EQ(started.finish(), 0) << started.out();
  EXPECT_EQ(Command::count(started.out(), "] terminals 000, 0 x 0,"), 2) << started.out();
}

TEST_F(Terminal, ProgressIsRedrawnAndThePrefixHasAColour) {
  const std::string prefix = "\033[36m[0] \033[0m";
  mark_.erase("NO_COLOR");
  OnTerminal command(run(1, {"progress"}), mark_);
  EXPECT_EQ(command.finish(), 0);
  const std::string& text = command.out();
  EXPECT_NE(text.find(prefix + "windows\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\r" + prefix + "leading 2\033[K"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\r\033[K" + prefix + "leading 2\n")) << text;
}

}  // namespace
}  // namespace kolo
