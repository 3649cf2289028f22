// A store whose process is stopped: no request waits for it until its own deadline.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <initializer_list>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "kolo/error.hpp"
#include "kolo/store.hpp"
#include "watchdog.hpp"

namespace kolo {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using StoppedStore = RendezvousTest;

TEST_F(StoppedStore, IsLostForEveryRequest) {
  int port[2];
  ASSERT_EQ(::pipe(port), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const auto server = serve_tcp_store("127.0.0.1", 0, "key");
    const std::uint16_t number = server->port();
    if (::write(port[1], &number, sizeof number) == sizeof number) ::pause();
    ::_exit(1);
  }
  std::uint16_t number = 0;
  ASSERT_EQ(::read(port[0], &number, sizeof number), static_cast<ssize_t>(sizeof number));
  using Request = void (*)(Store&);
  std::vector<std::thread> threads;
  std::atomic<int> connected = 0;
  std::atomic<bool> is_stopped = false;
  for (const Request request : std::initializer_list<Request>{
           [](Store& store) { store.set("key", "value"); }, [](Store& store) { store.add("n", 1); },
           [](Store& store) { store.get("none", seconds(300)); },
           [](Store& store) { store.wait({"none"}, seconds(300)); },
           [](Store& store) { store.remove("key"); }}) {
    threads.emplace_back([&, request] {
      const auto store = connect_tcp_store("127.0.0.1", number, "key", seconds(50));
      if (++connected == 5) {
        ::kill(child, SIGSTOP);
        ::waitpid(child, nullptr, WUNTRACED);
        is_stopped = true;
      }
      while (!is_stopped) std::this_thread::sleep_for(milliseconds(1));
      const auto begin = Clock::now();
      for (int again = 0; again < 2; ++again) {
        try {
          request(*store);
          ADD_FAILURE() << "a stopped store answered";
        } catch (const RendezvousError& error) {
          EXPECT_NE(std::string(error.what()).find("is stopped"), std::string::npos) << error.what();
        }
      }
      EXPECT_LT(Clock::now() - begin, seconds(15));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int fd : port) ::close(fd);
}

}  // namespace
}  // namespace kolo
