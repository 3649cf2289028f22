// The contract of Store, tested for every kind of store.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>

#include "base/deadline.hpp"
#include "kolo/store.hpp"
#include "support/temporary_folder.hpp"
#include "watchdog.hpp"

namespace kolo {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A job's store with a client for each of several ranks.
class Site {
 public:
  virtual ~Site() = default;
  virtual std::shared_ptr<Store> join() = 0;
};

class MemorySite final : public Site {
 public:
  std::shared_ptr<Store> join() override { return store_; }

 private:
  std::shared_ptr<Store> store_ = make_memory_store();
};

class FileSite final : public Site {
 public:
  std::shared_ptr<Store> join() override { return make_file_store(folder_ / "store"); }

 private:
  test::TemporaryFolder folder_;
};

class TcpSite final : public Site {
 public:
  std::shared_ptr<Store> join() override {
    return connect_tcp_store("127.0.0.1", server_->port(), "secret", seconds(10));
  }

 private:
  std::unique_ptr<TcpStoreServer> server_ = serve_tcp_store("127.0.0.1", 0, "secret");
};

template <typename Inner>
class PrefixSite final : public Site {
 public:
  std::shared_ptr<Store> join() override { return make_prefix_store("some job", inner_.join()); }

 private:
  Inner inner_;
};

struct Kind {
  const char* name;
  std::unique_ptr<Site> (*make)();

  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

template <typename S>
std::unique_ptr<Site> make() {
  return std::make_unique<S>();
}

class StoreConformance : public RendezvousTest, public ::testing::WithParamInterface<Kind> {
 protected:
  std::unique_ptr<Site> site_ = GetParam().make();
  std::shared_ptr<Store> store_ = site_->join();
};

TEST_P(StoreConformance, GivesBackWhatWasSetToEveryRank) {
  const auto other = site_->join();
  store_->set("key", "value");
  EXPECT_EQ(other->get("key", seconds(10)), "value");
  other->set("key", "another, longer value");
  EXPECT_EQ(store_->get("key", seconds(10)), "another, longer value");
  store_->set("key", "");
  EXPECT_EQ(other->get("key", seconds(0)), "");
}

TEST_P(StoreConformance, TakesAnyBytes) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  store_->set(all, all + all);
  store_->set("", "the empty key");
  EXPECT_EQ(site_->join()->get(all, seconds(10)), all + all);
  EXPECT_EQ(store_->get("", seconds(10)), "the empty key");
}

TEST_P(StoreConformance, TakesValuesUpToTheLimitAndNoMore) {
  std::string large(1 << 20, 'x');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 >> 3);
  store_->set("large", large);
  EXPECT_EQ(site_->join()->get("large", seconds(10)), large);
  EXPECT_THROW(store_->set("larger", large + "x"), InvalidArgumentError);
  const std::string key(1025, 'k');
  EXPECT_THROW(store_->set(key, ""), InvalidArgumentError);
  EXPECT_THROW(store_->get(key, seconds(0)), InvalidArgumentError);
  EXPECT_THROW(store_->add(key, 1), InvalidArgumentError);
  EXPECT_THROW(store_->wait({key}, seconds(0)), InvalidArgumentError);
  EXPECT_THROW(store_->remove(key), InvalidArgumentError);
  store_->set("after", "all is well");
  EXPECT_EQ(store_->get("after", seconds(10)), "all is well");
}

TEST_P(StoreConformance, GetNamesTheKeyAfterItsTimeout) {
  const auto began = Clock::now();
  try {
    store_->get("nobody sets this", milliseconds(120));
    FAIL() << "a key that nobody sets";
  } catch (const TimeoutError& error) {
    EXPECT_NE(std::string(error.what()).find("nobody sets this"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(store_->describe()), std::string::npos) << error.what();
  }
  EXPECT_GE(Clock::now() - began, milliseconds(120));
  EXPECT_LT(Clock::now() - began, seconds(10));
}

TEST_P(StoreConformance, AWaitingGetHoldsNobodyUp) {
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(100));
    store_->set("unrelated", "1");
    store_->set("awaited", "2");  // through the same store object in which the other thread waits
  });
  EXPECT_EQ(store_->get("awaited", seconds(30)), "2");
  late.join();
}

TEST_P(StoreConformance, WaitTellsExactlyWhatIsMissing) {
  store_->set("a", "");
  store_->set("c", "");
  const std::vector<std::string> expected = {"b", "d"};
  EXPECT_EQ(store_->wait({"a", "b", "c", "d"}, milliseconds(50)), expected);
  EXPECT_TRUE(store_->wait({"a", "c"}, seconds(30)).empty());
  EXPECT_TRUE(store_->wait({}, seconds(30)).empty());
  std::thread late([&] {
    const auto other = site_->join();
    other->set("d", "");
    std::this_thread::sleep_for(milliseconds(50));
    other->set("b", "");
  });
  EXPECT_TRUE(store_->wait({"a", "b", "c", "d"}, seconds(30)).empty());
  late.join();
}

TEST_P(StoreConformance, WaitTakesManyLongKeys) {
  std::vector<std::string> keys;
  for (int i = 0; i < 5000; ++i) keys.push_back(std::string(700, 'k') + std::to_string(i));
  EXPECT_EQ(store_->wait(keys, milliseconds(10)), keys);
}

TEST_P(StoreConformance, AddIsAtomicBetweenRanks) {
  constexpr int kRanks = 4;
  constexpr int kTimes = 50;
  std::vector<std::thread> ranks;
  std::vector<std::vector<std::int64_t>> sums(kRanks);
  for (std::size_t r = 0; r < kRanks; ++r) {
    ranks.emplace_back([&, r] {
      const auto own = site_->join();
      for (int i = 0; i < kTimes; ++i) sums[r].push_back(own->add("counter", 1));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  std::set<std::int64_t> seen;
  for (const auto& some : sums) seen.insert(some.begin(), some.end());
  EXPECT_EQ(seen.size(), std::size_t{kRanks * kTimes}) << "two ranks got the same sum";
  EXPECT_EQ(store_->add("counter", -kRanks * kTimes), 0);
}

TEST_P(StoreConformance, AddWorksOnDecimalNumbersAlone) {
  store_->set("number", "-41");
  EXPECT_EQ(store_->add("number", 42), 1);
  EXPECT_EQ(store_->get("number", seconds(10)), "1");
  EXPECT_EQ(store_->add("limit", INT64_MAX), INT64_MAX);
  EXPECT_THROW(store_->add("limit", 1), InvalidArgumentError);
  EXPECT_EQ(store_->get("limit", seconds(10)), std::to_string(INT64_MAX));
  store_->set("word", "7 dwarfs");
  EXPECT_THROW(store_->add("word", 1), InvalidArgumentError);
  EXPECT_EQ(store_->get("word", seconds(10)), "7 dwarfs");
}

TEST_P(StoreConformance, RemoveTakesOneKeyAway) {
  store_->set("gone", "1");
  store_->set("stays", "1");
  site_->join()->remove("gone");
  store_->remove("never was");
  EXPECT_EQ(store_->wait({"gone", "stays"}, seconds(0)), std::vector<std::string>{"gone"});
  EXPECT_EQ(store_->add("gone", 5), 5);
}

TEST_P(StoreConformance, ManyRanksMeet) {
  constexpr int kRanks = 16;
  std::vector<std::string> keys;
  for (int r = 0; r < kRanks; ++r) keys.push_back("rank" + std::to_string(r));
  std::atomic<int> met = 0;
  std::vector<std::thread> ranks;
  for (std::size_t r = 0; r < kRanks; ++r) {
    ranks.emplace_back([&, r] {
      const auto own = site_->join();
      own->set(keys[r], std::to_string(r));
      if (!own->wait(keys, seconds(30)).empty()) return;
      for (std::size_t peer = 0; peer < kRanks; ++peer) {
        if (own->get(keys[peer], seconds(0)) != std::to_string(peer)) return;
      }
      ++met;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(met, kRanks);
}

TEST_P(StoreConformance, PrefixesKeepJobsApart) {
  const auto one = make_prefix_store("a", store_);
  const auto two = make_prefix_store("a/b", store_);
  one->set("b/c", "one");
  two->set("c", "two");
  EXPECT_EQ(one->get("b/c", seconds(10)), "one");
  EXPECT_EQ(two->get("c", seconds(10)), "two");
  EXPECT_EQ(two->wait({"c", "d"}, seconds(0)), std::vector<std::string>{"d"});
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance,
                         ::testing::Values(Kind{"memory", make<MemorySite>}, Kind{"file", make<FileSite>},
                                           Kind{"tcp", make<TcpSite>},
                                           Kind{"prefixed_memory", make<PrefixSite<MemorySite>>},
                                           Kind{"prefixed_tcp", make<PrefixSite<TcpSite>>}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kolo
