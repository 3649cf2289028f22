// Metrics of a real job, read over HTTP: they identify the straggler.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <map>
#include <regex>
#include <sstream>
#include <thread>

#include "base/deadline.hpp"
#include "comm/metrics_server.hpp"
#include "engine/shared_memory/segment.hpp"
#include "multiprocess/processes.hpp"
#include "net/socket.hpp"
#include "support/require.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr int kSize = 3;
constexpr int kSlow = 1;

/// The answer of the server on this port of loopback; empty if there is none.
std::string ask(std::uint16_t port, const std::string& request) {
  const auto addresses = net::resolve("127.0.0.1", port);
  auto fd = net::connect_to(addresses.value().front(), Deadline::after(5s));
  if (!fd.ok()) return {};
  if (!net::send_all(fd->get(), request, Deadline::after(5s)).ok()) return {};
  std::string answer;
  std::array<std::byte, 4096> block;
  for (;;) {
    const auto got = net::receive_some(fd->get(), block, Deadline::after(5s));
    if (!got.ok()) return answer;
    answer.append(reinterpret_cast<const char*>(block.data()), got.value());
  }
}

constexpr const char* kScrape = "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";

/// A port whose successors are mostly free too: below the range of ports that the kernel assigns to clients.
std::uint16_t base_port() {
  return static_cast<std::uint16_t>(20000 + ::getpid() % 9000);
}

/// The values of a metric on a page, by one of its labels.
std::map<std::string, double> values(const std::string& page, const std::string& metric,
                                     const std::string& label) {
  std::map<std::string, double> found;
  const std::regex sample("^" + metric + "\\{.*[{,]" + label + "=\"([^\"]*)\".*\\} (.*)$");
  std::istringstream lines(page);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, sample)) found[match[1]] += std::stod(match[2]);
  }
  return found;
}

/// Ranks of one host that serve their metrics at `port` and the ports after it.
ProcessOptions watched(const std::string& transports, std::uint16_t port) {
  // Set in this process, which does not read its settings. Each rank reads them when it opens its store.
  ::setenv("KOLO_METRICS", std::to_string(port).c_str(), 1);
  return {.size = kSize, .transports = transports, .prepare = [](int rank) {
            ::setenv("RANK", std::to_string(rank).c_str(), 1);
            ::setenv("WORLD_SIZE", std::to_string(kSize).c_str(), 1);
            ::setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
            ::setenv("LOCAL_WORLD_SIZE", std::to_string(kSize).c_str(), 1);
          }};
}

void find_the_straggler(const std::string& transports) {
  const std::uint16_t port = base_port();
  Processes processes(watched(transports, port), [](Communicator& c) {
    std::vector<float> data(20'000);
    for (int step = 0; step < 10; ++step) {
      if (c.rank() == kSlow) std::this_thread::sleep_for(100ms);
      c.all_reduce(data);
    }
    std::this_thread::sleep_for(3s);  // the test reads its metrics meanwhile
    c.barrier();
  });
  processes.await_ready();
  std::this_thread::sleep_for(2s);
  // A rank's blame: the time that its peers waited for it, minus the time that it waited itself. So a rank
  // that only passes a delay on is not blamed.
  std::map<int, double> blame;
  for (int rank = 0; rank < kSize; ++rank) {
    const std::string page = ask(static_cast<std::uint16_t>(port + rank), kScrape);
    ASSERT_TRUE(page.starts_with("HTTP/1.1 200 OK\r\n")) << "rank " << rank << ": " << page;
    EXPECT_EQ(values(page, "kolo_operations_total", "collective")["all_reduce"], 10) << page;
    EXPECT_EQ(values(page, "kolo_operation_bytes_total", "collective")["all_reduce"], 10 * 80'000) << page;
    EXPECT_EQ(values(page, "kolo_operation_errors_total", "collective")["all_reduce"], 0);
    EXPECT_EQ(values(page, "kolo_info", "rank").begin()->first, std::to_string(rank));
    if (transports == "tcp") {
      double sent = 0;
      for (const auto& [peer, bytes] : values(page, "kolo_sent_bytes_total", "peer")) sent += bytes;
      EXPECT_GT(sent, 10 * 80'000 / 2) << page;
    }
    for (const auto& [peer, waited] : values(page, "kolo_waiting_seconds_total", "peer")) {
      blame[std::stoi(peer)] += waited;
      blame[rank] -= waited;
    }
  }
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == kSlow) {
      EXPECT_GT(blame[rank], 1.0) << "two others waited about a second each";
    } else {
      EXPECT_LT(blame[rank], 0.2) << "rank " << rank;
    }
  }
  for (const RankEnd& end : processes.collect(20s)) EXPECT_EQ(end.code, 0) << end.error;
  EXPECT_EQ(ask(port, kScrape), "") << "the server is gone with its ranks";
}

TEST(Metrics, NameTheSlowRankOverTcp) {
  find_the_straggler("tcp");
}

TEST(Metrics, NameTheSlowRankOverSharedMemory) {
  find_the_straggler("shm");
}

TEST(Metrics, CountCommunicatorsWithoutASlot) {
  const std::uint16_t port = base_port();
  Processes processes(watched("shm", port), [&](Communicator& c) {
    std::vector<Communicator> parts;  // besides `c`
    for (std::uint32_t i = 0; i < engine::shared_memory::kCommSlots + 2; ++i) parts.push_back(c.split(0));
    const std::string page = ask(static_cast<std::uint16_t>(port + c.rank()), kScrape);
    const auto counts = values(page, "kolo_communicators_without_slot_total", "rank");
    require(counts.at(std::to_string(c.rank())) == 3, page);
    c.barrier();
  });
  for (const RankEnd& end : processes.collect(20s)) EXPECT_EQ(end.code, 0) << end.error;
}

TEST(Metrics, APortThatIsTakenHarmsNobody) {
  const std::uint16_t port = base_port();
  // The store is no server here: a server is a second thread, and a forked rank could inherit its locks.
  const auto addresses = net::resolve("127.0.0.1", port);
  const auto taken = net::listen_on(addresses.value().front());
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  Processes processes(watched("shm", port), [](Communicator& c) {
    float one = 1;
    c.all_reduce({&one, 1, DType::float32});
    if (one != kSize) throw std::runtime_error("a wrong sum");
  });
  for (const RankEnd& end : processes.collect(20s)) EXPECT_EQ(end.code, 0) << end.error;
}

TEST(Metrics, FloodsAndSilentClientsDoNotKeepOthersOut) {
  const std::uint16_t port = base_port();
  auto page = comm::serve_metrics_at({"127.0.0.1", port});
  ASSERT_TRUE(page.ok()) << page.status().message();
  (*page)->add(&port, [] { return observe::RankMetrics{}; });
  const auto address = net::resolve("127.0.0.1", port).value().front();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) {
    if (auto fd = net::connect_to(address, Deadline::after(5s)); fd.ok()) silent.push_back(std::move(*fd));
    if (i % 2 == 0 && !silent.empty()) {
      [[maybe_unused]] const auto sent = ::send(silent.back().get(), "GET ", 4, MSG_NOSIGNAL);
    }
  }
  EXPECT_TRUE(ask(port, kScrape).starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(ask(port, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(ask(port, std::string(9000, 'x')).starts_with("HTTP/1.1 400 "));
  (*page)->remove(&port);
}

TEST(Metrics, PlacesArePortsOrAddressesWithOne) {
  const auto place = [](const std::string& text, int local_rank) {
    const auto parsed = comm::parse_metrics_place(text, local_rank);
    return parsed.ok() ? parsed.value().host + " " + std::to_string(parsed.value().port) : "refused";
  };
  EXPECT_EQ(place("9400", 0), "127.0.0.1 9400");
  EXPECT_EQ(place("9400", 3), "127.0.0.1 9403");
  EXPECT_EQ(place("10.0.0.1:9400", 1), "10.0.0.1 9401");
  EXPECT_EQ(place("[fd00::1]:9400", 0), "fd00::1 9400");
  for (const char* text :
       {"0", "-1", "65536", "http", "", ":9400", "fd00::1:9400", "9400x", "[]:9400", "a:"}) {
    EXPECT_EQ(place(text, 0), "refused") << text;
  }
  EXPECT_EQ(place("65535", 1), "refused");
}

}  // namespace
}  // namespace kolo::test
