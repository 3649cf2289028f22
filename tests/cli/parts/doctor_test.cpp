// kolo doctor's findings, from given facts.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "doctor/examination.hpp"
#include "doctor/report.hpp"

namespace kolo::doctor {
namespace {

/// Three hosts without problems.
Examination healthy() {
  Examination seen;
  seen.size = 3;
  seen.store = "tcp://a:1";
  for (int rank = 0; rank < 3; ++rank) {
    const std::string host(1, static_cast<char>('a' + rank));
    Facts facts;
    facts.rank = rank;
    facts.host = facts.place = host;
    facts.version = "0.1.0";
    facts.key = "abc";
    facts.cores = "0-3";
    facts.files = 4096;
    seen.ranks.push_back(facts);
  }
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      if (from == to) continue;
      seen.dials.push_back(
          {from, to, "ok", "", {"eth0", "10.0.0." + std::to_string(from), "IPv4", 1500, false}});
      if (from < to) seen.pairs.push_back({from, to, "tcp", "", 50, 1e8, 1e8, 0});
    }
  }
  return seen;
}

Dial& dial(Examination& seen, int from, int to) {
  return *std::find_if(seen.dials.begin(), seen.dials.end(),
                       [&](const Dial& one) { return one.from == from && one.to == to; });
}

/// The one finding, as "problem: what | fix".
std::string only(const Examination& seen) {
  const auto found = judge(seen);
  if (found.size() != 1) return std::to_string(found.size()) + " findings";
  return (found[0].problem ? "problem: " : "warning: ") + found[0].what + " | " + found[0].fix;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Doctor, FindsNothingWrongWithTheHealthy) {
  EXPECT_EQ(judge(healthy()).size(), 0u);
  EXPECT_TRUE(has(report_text(healthy(), {}, false), "nothing is wrong"));
}

TEST(Doctor, TellsTheDirectionThatFails) {
  Examination seen = healthy();
  dial(seen, 1, 2).outcome = "silent";
  EXPECT_TRUE(has(only(seen), "problem: b cannot reach c: no answer")) << only(seen);
  EXPECT_TRUE(has(only(seen), "open TCP from b to c, its ports of net.ipv4.ip_local_port_range"))
      << only(seen);
  dial(seen, 1, 2).outcome = "refused";
  EXPECT_TRUE(has(only(seen), "problem: b cannot reach c: refused")) << only(seen);
  EXPECT_TRUE(has(report_text(seen, judge(seen), false), "\n1          ok  .   refused\n"))
      << report_text(seen, judge(seen), false);
}

TEST(Doctor, NamesRanksThatDidNotCome) {
  Examination seen = healthy();
  seen.size = 5;
  EXPECT_TRUE(has(only(seen), "problem: ranks 3, 4 of 5 did not come to the store at tcp://a:1"))
      << only(seen);
  seen.hosts = {"a", "b", "c", "d", "d"};
  EXPECT_TRUE(has(only(seen), "problem: ranks 3, 4 of 5 (on d) did not come to the store at")) << only(seen);
}

TEST(Doctor, ComparesVersionsAndKeys) {
  Examination seen = healthy();
  seen.ranks[2].version = "0.2.0";
  EXPECT_TRUE(has(only(seen), "0.1.0 (a, b), 0.2.0 (c)")) << only(seen);
  seen = healthy();
  seen.ranks[1].key = "abd";
  EXPECT_TRUE(has(only(seen), "problem: ranks hold different keys")) << only(seen);
  seen = healthy();
  for (Facts& facts : seen.ranks) facts.key.clear();
  EXPECT_TRUE(has(only(seen), "warning: there is no key")) << only(seen);
}

TEST(Doctor, SeesUnequalNetworks) {
  Examination seen = healthy();
  for (Dial& one : seen.dials) one.card.mtu = one.from == 0 ? 9000 : 1500;
  EXPECT_TRUE(has(only(seen), "1500 (b, c), 9000 (a)")) << only(seen);
  seen = healthy();
  seen.pairs[1].back = 1e7;
  EXPECT_TRUE(has(only(seen), "c to a is slow: 10 MB/s, others 100 MB/s")) << only(seen);
  seen = healthy();
  seen.pairs[0].latency_us = 900;
  EXPECT_TRUE(has(only(seen), "a and b are 900 us apart, others 50 us")) << only(seen);
  seen = healthy();
  seen.pairs[0].clock_s = -2.5;
  EXPECT_TRUE(has(only(seen), "the clock of b is 2.5 s behind that of a")) << only(seen);
  seen = healthy();
  seen.pairs[2].error = "nothing moved";
  EXPECT_TRUE(has(only(seen), "problem: b and c connect, but do not work together: nothing moved"))
      << only(seen);
}

TEST(Doctor, SaysWhereRanksShareCores) {
  Examination seen = healthy();
  for (int rank = 0; rank < 3; ++rank) {
    seen.ranks[static_cast<std::size_t>(rank)].host = seen.ranks[static_cast<std::size_t>(rank)].place = "a";
    seen.ranks[static_cast<std::size_t>(rank)].cores = std::to_string(rank);
  }
  seen.dials.clear();
  EXPECT_EQ(only(seen), "0 findings") << "each is bound to a core of its own";
  seen.ranks[2].cores = "1";
  EXPECT_TRUE(has(only(seen), "3 ranks share 2 cores |")) << only(seen);
  seen.ranks[2].cores = "1-3";
  EXPECT_EQ(only(seen), "0 findings") << "it has others";
  seen.ranks[1].cores = "0";
  EXPECT_TRUE(has(only(seen), "ranks 0, 1 are bound to the same cores | bind")) << only(seen);
  seen.ranks[1].cores = "1";
  seen.ranks[2].cores = "2-3/2.5";
  EXPECT_TRUE(has(only(seen), "3 ranks share 2 cores: a control group's quota is 2.5 | raise")) << only(seen);
}

TEST(Doctor, SharesAFindingBetweenHosts) {
  Examination seen = healthy();
  seen.ranks[0].huge_pages = seen.ranks[2].huge_pages = "none was granted";
  EXPECT_TRUE(has(only(seen), "warning: a, c: shared memory gets no huge pages: none was granted"))
      << only(seen);
  seen = healthy();
  for (Facts& facts : seen.ranks) facts.files = 24;
  EXPECT_TRUE(has(only(seen), "problem: a, b, c: a process may open 24 files")) << only(seen);
  EXPECT_TRUE(has(only(seen), "ulimit -n")) << only(seen);
  seen = healthy();
  seen.ranks[1].direct_read = "Operation not permitted";
  EXPECT_TRUE(has(only(seen), "ptrace_scope")) << only(seen);
}

TEST(Doctor, NamesTheGpusOfAHost) {
  Examination seen = healthy();
  EXPECT_FALSE(has(report_text(seen, {}, false), "GPU"));
  seen.ranks[1].gpus = {"One", "Other"};
  seen.ranks[1].nccl_from = "libnccl.so.2: not there";
  EXPECT_TRUE(has(report_text(seen, {}, false), "GPUs of b: One, Other; no NCCL: libnccl.so.2: not there"))
      << report_text(seen, {}, false);
}

TEST(Doctor, TellsTheEngineOfCallsOnGpus) {
  Examination seen = healthy();
  const auto expect = [&](const std::string& engine) {
    EXPECT_TRUE(has(report_text(seen, {}, false), "KOLO_GPU=auto would take: " + engine))
        << report_text(seen, {}, false);
  };
  seen.ranks[0].gpus = {"One"};
  seen.ranks[0].nccl = "2.28.9";
  expect("none, for b has no GPU");
  for (Facts& facts : seen.ranks) {
    facts.gpus = {"One of " + facts.place, "Other of " + facts.place};
    facts.nccl = "2.28.9";
  }
  expect("nccl, for all have NCCL 2.28.9 and a GPU for each rank");
  seen.ranks[2].nccl = "2.30.7";
  expect("staged, for NCCL is 2.28.9 on a and 2.30.7 on c");
  seen.ranks[1].nccl = "";
  expect("staged, for b has no NCCL");
  for (Facts& facts : seen.ranks) {
    facts.place = seen.ranks[0].place;
    facts.gpus = seen.ranks[0].gpus;
    facts.nccl = "2.28.9";
  }
  expect("staged, for ranks 0 and 2 share a GPU");
}

}  // namespace
}  // namespace kolo::doctor
