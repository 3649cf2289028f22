// Ranks that are stopped during the start: all other ranks name them after a heartbeat, and not at their
// deadline.
#include <gtest/gtest.h>

#include <csignal>
#include <utility>

#include "multiprocess/processes.hpp"
#include "support/transports.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

/// Stops its process for good after it has read a key, or before it writes one.
class StoppingStore final : public Store {
 public:
  StoppingStore(std::shared_ptr<Store> store, std::string read, std::string written)
      : store_(std::move(store)), read_(std::move(read)), written_(std::move(written)) {}

  void set(const std::string& key, const std::string& value) override {
    if (!written_.empty() && key.ends_with(written_)) ::raise(SIGSTOP);
    store_->set(key, value);
  }
  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    std::string value = store_->get(key, timeout);
    if (!read_.empty() && key.ends_with(read_)) ::raise(SIGSTOP);
    return value;
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override { return store_->add(key, amount); }
  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    return store_->wait(keys, timeout);
  }
  void remove(const std::string& key) override { store_->remove(key); }
  std::string describe() const override { return store_->describe(); }

 private:
  const std::shared_ptr<Store> store_;
  const std::string read_, written_;
};

void expect_named(const ProcessOptions& options, int victim, const std::string& words) {
  Processes processes(options, [](Communicator& c) { c.barrier(); });
  for (const RankEnd& end : processes.collect(30s, {victim})) {
    EXPECT_EQ(end.code, 1);
    EXPECT_NE(end.error.find(words), std::string::npos) << end.error;
  }
}

// The stopped rank knows the addresses of all ranks, and all ranks know its address.
TEST(StoppedRanks, AreNamedWhileTheyConnect) {
  const auto meet_in = [](int rank, std::shared_ptr<Store> file) -> std::shared_ptr<Store> {
    if (rank != 1) return file;
    return std::make_shared<StoppingStore>(std::move(file), "offers/0", "");
  };
  for (const char* transports : transports_that_reach(transport::Reach::host)) {
    // A rank that connects on demand has an engine before it has links.
    const bool has_engine = transport::find_transport(transports)->reach == transport::Reach::network;
    expect_named({.size = 3,
                  .transports = transports,
                  .timeout = 300s,
                  .settings = {{"KOLO_HEARTBEAT", "1"}},
                  .meet_in = meet_in},
                 1, has_engine ? "lost rank 1: timed out after" : "rank 1 (its process ");
  }
}

TEST(StoppedRanks, RankZeroIsNamedWhereAllHaveComeButItDoesNotSaySo) {
  const auto meet_in = [](int rank, std::shared_ptr<Store> file) -> std::shared_ptr<Store> {
    if (rank != 0) return file;
    return std::make_shared<StoppingStore>(std::move(file), "", "verdict");
  };
  expect_named({.size = 3, .timeout = 300s, .settings = {{"KOLO_HEARTBEAT", "1"}}, .meet_in = meet_in}, 0,
               "all 3 ranks have come to file://");
}

TEST(StoppedRanks, AStoreThatIsStoppedWithItsRankIsLost) {
  const auto meet_in = [](int rank, std::shared_ptr<Store> file) -> std::shared_ptr<Store> {
    static std::unique_ptr<TcpStoreServer> server;
    if (rank == 0) {
      server = serve_tcp_store("127.0.0.1", 0, "the key of this test");
      file->set("port", std::to_string(server->port()));
    }
    const auto port = static_cast<std::uint16_t>(std::stoi(file->get("port", 20s)));
    auto store = connect_tcp_store("127.0.0.1", port, "the key of this test", 20s);
    if (rank != 0) return store;
    return std::make_shared<StoppingStore>(std::move(store), "", "verdict");
  };
  expect_named({.size = 3, .timeout = 300s, .settings = {{"KOLO_HEARTBEAT", "1"}}, .meet_in = meet_in}, 0,
               "is lost: no answer: the process that serves it is stopped");
}

}  // namespace
}  // namespace kolo::test
