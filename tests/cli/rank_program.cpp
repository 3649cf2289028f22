// The program that kolo run starts in its tests: the first argument selects the behaviour.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

namespace {

int rank() {
  return std::atoi(std::getenv("RANK"));
}

[[noreturn]] void sleep_forever() {
  for (;;) ::pause();
}

volatile sig_atomic_t heard = 0;

/// Prints "heard N" for the first of these signals, then exits with success.
int report_signal() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    ::signal(signal, [](int number) { heard = number; });
  }
  std::puts("ready");
  std::fflush(stdout);
  while (heard == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::printf("heard %d\n", static_cast<int>(heard));
  return 0;
}

/// Starts a process that hides in the way `how`, and then sleeps.
void start_grandchild(bool hide) {
  if (::fork() != 0) return;
  if (hide) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    ::signal(SIGTERM, SIG_IGN);
  }
  sleep_forever();
}

/// `lines` lines of one letter, in awkward pieces.
void spam(int lines) {
  const std::string line(997, static_cast<char>('a' + rank()));
  for (int i = 0; i < lines; ++i) {
    const std::string whole = line + "\n";
    const std::size_t cut = static_cast<std::size_t>(i * 37 % 990);
    const int fd = i % 2 == 0 ? 1 : 2;
    if (::write(fd, whole.data(), cut) < 0 || ::write(fd, whole.data() + cut, whole.size() - cut) < 0)
      ::_exit(9);
  }
}

/// Prints until the reader has read nothing for half a second, then prints the number of bytes.
void fill() {
  const std::string line = std::string(63, 'x') + "\n";
  std::size_t bytes = 0;
  pollfd entry{1, POLLOUT, 0};
  while (::poll(&entry, 1, 500) > 0 && ::write(1, line.data(), line.size()) > 0) bytes += line.size();
  std::fprintf(stderr, "%zu", bytes);
}

/// What the rank finds at its standard streams.
void print_terminals() {
  winsize size{};
  ::ioctl(1, TIOCGWINSZ, &size);
  std::printf("terminals %d%d%d, %d x %d, group %d, session %d\n", ::isatty(0), ::isatty(1), ::isatty(2),
              size.ws_row, size.ws_col, ::getpgrp() == ::getpid(), ::tcgetsid(1) > 0);
}

/// `lines` lines with all bytes but '\n' and '\r', which a launcher may give a meaning.
void print_bytes(int lines) {
  std::string line;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte != '\n' && byte != '\r') line += static_cast<char>(byte);
  }
  line += '\n';
  for (int i = 0; i < lines; ++i) std::fwrite(line.data(), 1, line.size(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const int argument = argc > 2 ? std::atoi(argv[2]) : 0;
  if (what == "environment") {
    for (int i = 2; i < argc; ++i) {
      const char* value = std::getenv(argv[i]);
      std::printf("%s=%s\n", argv[i], value ? value : "(unset)");
    }
  } else if (what == "arguments") {
    for (int i = 2; i < argc; ++i) std::printf("<%s>\n", argv[i]);
  } else if (what == "fail") {  // fail RANK CODE: the other ranks sleep
    if (rank() == argument) return std::atoi(argv[3]);
    sleep_forever();
  } else if (what == "die") {  // die RANK SIGNAL: the other ranks sleep
    if (rank() == argument) ::kill(::getpid(), std::atoi(argv[3]));
    sleep_forever();
  } else if (what == "stubborn") {  // rank 0 fails, the other ranks ignore SIGTERM
    if (rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return 5;
    }
    ::signal(SIGTERM, SIG_IGN);
    sleep_forever();
  } else if (what == "report-signal") {
    return report_signal();
  } else if (what == "deaf") {
    ::signal(SIGINT, SIG_IGN);
    std::puts("ready");
    std::fflush(stdout);
    sleep_forever();
  } else if (what == "sleep") {
    std::puts("ready");
    std::fflush(stdout);
    sleep_forever();
  } else if (what == "family") {  // starts visible and hidden child processes; then the rank sleeps or ends
    start_grandchild(false);
    start_grandchild(true);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::puts("ready");
    std::fflush(stdout);
    if (argument == 0) sleep_forever();
  } else if (what == "spam") {
    spam(argument);
  } else if (what == "flood") {  // flood CODE: rank 0 prints without end, the other ranks fail a second later
    while (rank() == 0) std::puts("more and more and more");
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return argument;
  } else if (what == "fill") {
    fill();
  } else if (what == "unflushed") {  // unflushed SIGNAL: prints lines as a C program does, and is killed
    for (int i = 0; i < 3; ++i) std::printf("line %d\n", i);
    if (argument == 0) sleep_forever();
    ::raise(argument);
  } else if (what == "uncaught") {
    throw std::runtime_error("lost rank 1 in all_reduce");
  } else if (what ==
             "consequence") {  // rank 1 fails after a signal, and rank 0 does not catch the error of that
    ::signal(SIGUSR1, [](int) { heard = 1; });
    std::printf("%d is ready\n", static_cast<int>(::getpid()));
    std::fflush(stdout);
    while (heard == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (rank() == 1) return 3;
    throw std::runtime_error("lost rank 1 in all_reduce");
  } else if (what == "terminals") {
    print_terminals();
  } else if (what == "resized") {  // waits until its terminal has another size
    ::signal(SIGWINCH, [](int) { heard = 1; });
    std::puts("ready");
    while (heard == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    print_terminals();
  } else if (what == "bytes") {
    print_bytes(argument);
  } else if (what == "partial") {
    std::fputs("no newline at the end", stdout);
  } else if (what == "progress") {
    std::fputs("step 1\rstep 2\rstep 3\rdone\n", stdout);
    std::fputs("windows\r\n", stdout);
    std::fputs("\rleading 1\rleading 2", stdout);
  } else if (what == "long-line") {
    std::printf("%s\n", std::string(static_cast<std::size_t>(argument), 'x').c_str());
  } else if (what == "close") {
    ::close(1);
    ::close(2);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return rank() == 0 ? 0 : argument;
  } else if (what == "both") {
    std::puts("to stdout");
    std::fputs("to stderr\n", stderr);
  } else if (what == "input") {
    std::printf("read %zu bytes\n", std::fread(argv[0], 1, 1, stdin));
  } else {
    return 99;
  }
  return 0;
}
