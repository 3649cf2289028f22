// The algorithm of a call: by request, by table, by model.
#include "selection/chooser.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/lengths.hpp"
#include "selection/candidates.hpp"
#include "selection/predict.hpp"

namespace kolo {
namespace {

/// What choose() is asked.
struct Call {
  std::uint64_t bytes = 0;
  schedule::CallKey key = {};
  std::string_view preferred = {};
};

std::string pick(selection::Chooser& chooser, const Call& call) {
  const auto chosen = chooser.choose(call.key, call.bytes, call.preferred);
  return chosen.ok() ? chosen.value().name() : chosen.status().message();
}

std::string pick(selection::Chooser& chooser, std::uint64_t bytes) {
  return pick(chooser, Call{bytes});
}

std::string pick_anew(const selection::Topology& topology, std::uint64_t bytes,
                      const schedule::CallKey& key = {}) {
  selection::Chooser chooser(topology);
  return pick(chooser, Call{bytes, key});
}

TEST(Chooser, DoesWhatTheCallerWants) {
  selection::Chooser chooser({.size = 4});
  Call call{8};
  call.preferred = "ring";
  call.key.algorithm = "central";
  EXPECT_EQ(pick(chooser, call), "central");
  call.key.algorithm = "ring:order=3-2-1-0";
  EXPECT_EQ(pick(chooser, call), "ring:order=3-2-1-0");
  call.key.algorithm = "ring:order=3-2-1";
  EXPECT_NE(pick(chooser, call).find("needs an order"), std::string::npos);
  call.key.algorithm = "rnig";
  EXPECT_NE(pick(chooser, call).find("did you mean 'ring'?"), std::string::npos);
}

TEST(Chooser, PrefersWhatTheEnvironmentNamesWhereItFits) {
  selection::Chooser chooser({.size = 4});
  Call call{8};
  call.preferred = "ring";
  EXPECT_EQ(pick(chooser, call), "ring");
  call.key.commutative = false;
  const auto fits = chooser.choose(call.key, call.bytes, call.preferred);
  ASSERT_TRUE(fits.ok());
  EXPECT_TRUE(fits.value().algorithm->rank_ordered);
  call.preferred = "dissemination";  // an algorithm of barriers only
  EXPECT_TRUE(chooser.choose(call.key, call.bytes, call.preferred).ok());
}

TEST(Chooser, BelievesTheTableAtTheNearestSize) {
  selection::Topology topology{.size = 4};
  topology.links_inside = {.names = "shm", .share_memory = true};
  topology.table.set_time({"shm", "4"}, schedule::Collective::all_reduce, 1024, "central", 1e-6);
  topology.table.set_time({"shm", "4"}, schedule::Collective::all_reduce, 1024, "ring", 2e-6);
  topology.table.set_time({"shm", "4"}, schedule::Collective::all_reduce, 1 << 20, "central", 2e-3);
  topology.table.set_time({"shm", "4"}, schedule::Collective::all_reduce, 1 << 20, "ring", 1e-3);
  // Another setting says the opposite.
  topology.table.set_time({"tcp", "4"}, schedule::Collective::all_reduce, 1024, "ring", 1e-9);
  selection::Chooser chooser(topology);
  EXPECT_EQ(pick(chooser, 128), "central");
  EXPECT_EQ(pick(chooser, 16'000), "central");
  EXPECT_EQ(pick(chooser, 100'000), "ring");
  EXPECT_EQ(pick(chooser, 8 << 20), "ring");
  // Measurements at a distant size do not count.
  EXPECT_FALSE(chooser.ranking({}, 1 << 30)[0].measured);
  const auto ranking = chooser.ranking({}, 1024);
  ASSERT_GE(ranking.size(), 2u);
  EXPECT_TRUE(ranking[0].measured && ranking[1].measured);
  EXPECT_EQ(ranking[0].seconds, 1e-6);
  EXPECT_TRUE(std::all_of(ranking.begin() + 2, ranking.end(),
                          [](const selection::ScoredAlgorithm& r) { return !r.measured; }));
}

/// Puts times of four ranks into the topology's table.
auto measured_in(selection::Topology& topology) {
  return [&topology](std::uint64_t bytes, const std::string& algorithm, double seconds) {
    topology.table.set_time({"shm", "4"}, schedule::Collective::all_reduce, bytes, algorithm, seconds);
  };
}

TEST(Chooser, ReadsBetweenTheSizesOfTheTable) {
  selection::Topology topology{.size = 4};
  topology.links_inside = {.names = "shm", .share_memory = true};
  const auto measured = measured_in(topology);
  // On logarithmic scales two straight lines that cross at 2K.
  measured(1024, "central", 1e-6);
  measured(1024, "ring", 2e-6);
  measured(4096, "central", 16e-6);
  measured(4096, "ring", 8e-6);
  measured(4096, "butterfly", 1e-6);
  selection::Chooser chooser(topology);
  const auto ranking = chooser.ranking({}, 2048);
  ASSERT_TRUE(ranking[0].measured && ranking[1].measured);
  EXPECT_NEAR(ranking[0].seconds, 4e-6, 1e-12);
  EXPECT_NEAR(ranking[1].seconds, 4e-6, 1e-12);
  EXPECT_FALSE(ranking[2].measured);  // butterfly was not measured on both sides
  EXPECT_EQ(chooser.ranking({}, 1200)[0].configured.name(), "central");
  EXPECT_EQ(chooser.ranking({}, 3500)[0].configured.name(), "ring");
  EXPECT_EQ(chooser.ranking({}, 4096)[0].configured.name(), "butterfly");
  EXPECT_EQ(chooser.ranking({}, 8192)[0].seconds, 1e-6);
}

TEST(Chooser, SettlesTiesByTheSizesAround) {
  selection::Topology topology{.size = 4};
  topology.links_inside = {.names = "shm", .share_memory = true};
  const auto measured = measured_in(topology);
  measured(256, "ring", 3e-6);
  measured(256, "central", 1e-6);
  measured(1024, "ring", 1e-6);
  measured(1024, "central", 1.03e-6);
  measured(1024, "direct", 1.2e-6);
  EXPECT_EQ(pick_anew(topology, 1024), "central");
  measured(1024, "central", 1.1e-6);  // no tie any more
  EXPECT_EQ(pick_anew(topology, 1024), "ring");
}

TEST(Chooser, FollowsTheModelWithoutATable) {
  selection::Topology topology{.size = 8};
  for (int r = 0; r < 8; ++r) topology.hosts.push_back(r);
  topology.model.network = {.latency = 0, .wire_per_byte = 1};
  selection::Chooser wire(topology);
  EXPECT_NE(pick(wire, 1 << 20), "central");
  const auto ranking = wire.ranking({}, 1 << 20);
  EXPECT_TRUE(std::is_sorted(ranking.begin() + 1, ranking.end(),
                             [](const selection::ScoredAlgorithm& a, const selection::ScoredAlgorithm& b) {
                               return a.seconds < b.seconds;
                             }));
}

TEST(Chooser, PricesSharedMemoryAndMessagesAlike) {
  for (const int size : {2, 8, 64, 1024}) {
    for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{64} << 10, std::uint64_t{1} << 20}) {
      selection::Chooser chooser({.size = size, .shares_memory = true});
      const auto ranking = chooser.ranking({}, bytes);
      EXPECT_TRUE(std::ranges::is_sorted(ranking, {}, &selection::ScoredAlgorithm::seconds));
      EXPECT_TRUE(ranking.front().in_shared_memory) << size << " ranks, " << bytes << " bytes";
      EXPECT_EQ(pick(chooser, bytes), ranking.front().configured.name());
    }
  }
}

TEST(Chooser, RanksThatShareCoresTakeTheirTime) {
  const auto seconds_with = [](double cores) {
    selection::Topology topology{.size = 512};
    topology.model.cores = cores;
    return selection::Chooser(topology).ranking({}, 1 << 20).front().seconds;
  };
  EXPECT_GT(seconds_with(8), 30 * seconds_with(512));
  EXPECT_NEAR(seconds_with(4), 2 * seconds_with(8), 0.01 * seconds_with(4));
}

TEST(Chooser, KeepsLinksToFewFlowsAndTheLeastBytes) {
  // 1 Gbit/s, as measured when a communicator is created.
  const selection::LinkCost ethernet{.latency = 20e-6, .overhead = 4e-6, .wire_per_byte = 8.7e-9};
  for (const std::vector<int>& hosts :
       {std::vector<int>{0, 0, 1, 1}, {0, 1, 1, 2, 2, 2}, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}}) {
    selection::Topology topology{.size = static_cast<int>(hosts.size()), .hosts = hosts};
    topology.model.network = ethernet;
    for (const std::uint64_t bytes : {1u << 20, 64u << 20}) {
      EXPECT_EQ(pick_anew(topology, bytes), "hierarchical");
    }
  }
}

TEST(Chooser, PicksTheSameOnEveryRankAndWhateverTheRoot) {
  for (const schedule::Collective collective :
       {schedule::Collective::all_reduce, schedule::Collective::broadcast, schedule::Collective::gather}) {
    std::string first;
    for (int rank = 0; rank < 5; ++rank) {
      selection::Chooser chooser({.size = 5});
      Call call{4096};
      call.key.collective = collective;
      call.key.root = schedule::has_root(collective) ? rank : 0;
      if (first.empty()) first = pick(chooser, call);
      EXPECT_EQ(pick(chooser, call), first);
    }
  }
}

TEST(Chooser, RunsRingsInTheOrderOfTheLinks) {
  selection::Chooser chooser({.size = 4, .ring = {0, 2, 1, 3}});
  Call call{1 << 20};
  call.key.algorithm = "ring";
  EXPECT_EQ(pick(chooser, call), "ring:order=0-2-1-3");
  call.key.algorithm = "ring:order=0-1-2-3";
  EXPECT_EQ(pick(chooser, call), "ring:order=0-1-2-3");
  call.key.algorithm = "central";
  EXPECT_EQ(pick(chooser, call), "central");
  selection::Chooser hosts({.size = 5, .hosts = {0, 0, 1, 2, 2}, .ring = {0, 1, 3, 4, 2}});
  call.key.algorithm = "hierarchical";
  EXPECT_EQ(pick(hosts, call), "hierarchical:across=ring+order=0-2-1");
  call.key.algorithm = "hierarchical:across=central";
  EXPECT_EQ(pick(hosts, call), "hierarchical:across=central");
}

/// This number of hosts with links of 120 MB/s, except the link of `slow`.
selection::Topology with_a_slow_host(const std::vector<int>& hosts, std::size_t slow) {
  selection::Topology topology{.size = static_cast<int>(hosts.size()), .hosts = hosts};
  const auto count = static_cast<std::size_t>(hosts.back()) + 1;
  topology.bandwidth.assign(count, std::vector<double>(count, 120e6));
  for (std::size_t host = 0; host < count; ++host) {
    topology.bandwidth[host][slow] = topology.bandwidth[slow][host] = 12e6;
  }
  return topology;
}

TEST(Chooser, SparesAHostWhoseLinkIsSlow) {
  for (const std::size_t slow : {0, 2, 3}) {
    const std::string spared = "spared=" + std::to_string(slow);
    const selection::Topology alone = with_a_slow_host({0, 1, 2, 3}, slow);
    for (const std::uint64_t bytes : {1u << 20, 16u << 20}) {
      EXPECT_EQ(pick_anew(alone, bytes), "parameter_server:chunks=16:" + spared);
      const double seconds = selection::Chooser(alone).ranking({}, bytes)[0].seconds;
      EXPECT_LT(seconds, 1.2 * static_cast<double>(bytes) / 12e6);
    }
    const std::string several = pick_anew(with_a_slow_host({0, 0, 1, 2, 2, 3, 3}, slow), 16 << 20);
    EXPECT_NE(several.find("hierarchical:across=parameter_server+chunks="), std::string::npos) << several;
    EXPECT_NE(several.find("+" + spared), std::string::npos) << several;
  }
}

TEST(Chooser, LeavesALinkThatIsNoSlowerThanNoise) {
  selection::Topology topology = with_a_slow_host({0, 1, 2, 3}, 3);
  for (auto& row : topology.bandwidth) {
    for (double& one : row) one = one < 100e6 ? 110e6 : one;
  }
  EXPECT_EQ(pick_anew(topology, 16 << 20).find("spared"), std::string::npos);
}

TEST(Chooser, ServesEveryDemandOfEveryCollective) {
  for (const schedule::Collective collective :
       {schedule::Collective::all_reduce, schedule::Collective::reduce_scatter,
        schedule::Collective::all_gather, schedule::Collective::broadcast, schedule::Collective::reduce,
        schedule::Collective::scatter, schedule::Collective::gather, schedule::Collective::all_to_all,
        schedule::Collective::barrier}) {
    for (int bits = 0; bits < 8; ++bits) {
      for (const int size : {1, 2, 7}) {
        selection::Chooser chooser({.size = size});
        const bool uneven = (bits & 2) != 0;
        // In place, all_to_all exchanges equal parts only.
        const bool in_place = (bits & 4) != 0 && (!uneven || collective != schedule::Collective::all_to_all);
        const schedule::CallKey key{
            .collective = collective,
            .op = schedule::is_reducing(collective) && (bits & 1) != 0 ? ReduceOp::custom : ReduceOp::sum,
            .commutative = !schedule::is_reducing(collective) || (bits & 1) == 0,
            .in_place = in_place,
            .parts = std::vector<std::uint64_t>(uneven ? static_cast<std::size_t>(size) : 0)};
        const auto chosen = chooser.choose(key, 0);
        ASSERT_TRUE(chosen.ok()) << chosen.status().message();
        EXPECT_TRUE(algorithms::supports(*chosen.value().algorithm, {collective, 0, size, 0}, key).ok());
      }
    }
  }
}

TEST(Chooser, OfWhatIsRoundedTakesOnlyWhatCompletesEveryChunkOnceAndNothingInSharedMemory) {
  for (const int size : {2, 3, 4, 8, 13}) {
    for (const bool shares_memory : {false, true}) {
      selection::Chooser chooser({.size = size, .shares_memory = shares_memory});
      for (const std::uint64_t bytes : {8u, 4096u, 1u << 20, 64u << 20}) {
        const auto ranking = chooser.ranking({.wire = Wire::int8}, bytes);
        ASSERT_GE(ranking.size(), 5u);
        for (const selection::ScoredAlgorithm& ranked : ranking) {
          EXPECT_FALSE(ranked.in_shared_memory);
          EXPECT_NE(ranked.configured.name(), "recursive_doubling");
          EXPECT_NE(ranked.configured.name(), "naive");
        }
      }
    }
  }
  selection::Chooser chooser({.size = 4});
  Call call{8};
  call.key.wire = Wire::int8;
  call.key.algorithm = "naive";
  EXPECT_NE(pick(chooser, call).find("chunk 0 at rank 0 and at rank 1"), std::string::npos);
  call.key.algorithm = {};
  call.preferred = "naive";
  EXPECT_NE(pick(chooser, call), "naive");
}

TEST(Chooser, TakesTheRegistrysFirstOfPredictionsThatHardlyDiffer) {
  // Large data between hosts: all algorithms that send 2 (N-1) / N of it have the same predicted time, apart
  // from their few steps.
  selection::Topology topology{.size = 4, .hosts = {0, 1, 2, 3}, .links_between = "tcp"};
  topology.model.network.wire_per_byte = 8.4e-9;
  selection::Chooser chooser(topology);
  for (const std::uint64_t bytes : {4u << 20, 16u << 20, 64u << 20}) {
    EXPECT_EQ(pick(chooser, bytes), "ring");
  }
}

TEST(Topology, OfAPartHasThePartsLinksAndHosts) {
  selection::Topology whole{.size = 5,
                            .hosts = {0, 0, 1, 1, 2},
                            .host_names = {"a", "b", "c"},
                            .links_inside = {.names = "shm", .share_memory = true},
                            .links_between = "tcp"};
  whole.ring = {0, 1, 4, 2, 3};
  whole.bandwidth = {{0, 1, 2}, {3, 0, 5}, {6, 7, 0}};
  selection::CostModel model = selection::typical_cost_model();
  model.memory.latency = 1;
  whole.table.set_model({"shm", "2"}, model);
  EXPECT_EQ(whole.setting(), (selection::Setting{"shm+tcp", "2+2+1"}));
  const selection::Topology host = selection::part_of(whole, {2, 3});
  EXPECT_EQ(host.setting(), (selection::Setting{"shm", "2"}));
  EXPECT_EQ(host.model, model);
  EXPECT_EQ(host.ring, (std::vector<int>{0, 1}));
  const selection::Topology leaders = selection::part_of(whole, {4, 2, 0});
  EXPECT_EQ(leaders.setting(), (selection::Setting{"tcp", "1+1+1"}));
  EXPECT_EQ(leaders.host_names, (std::vector<std::string>{"c", "b", "a"}));
  EXPECT_EQ(leaders.ring, (std::vector<int>{2, 0, 1}));
  EXPECT_EQ(leaders.bandwidth, (selection::BandwidthMatrix{{0, 7, 6}, {5, 0, 3}, {2, 1, 0}}));
  EXPECT_EQ(selection::part_of(whole, {1}).setting(), (selection::Setting{"self", "1"}));
}

/// The model's time of an algorithm with this number of ranks on each of these hosts.
double played(const selection::Topology& topology, const std::string& name, std::uint64_t bytes) {
  const algorithms::ConfiguredAlgorithm configured =
      algorithms::parse_algorithm(schedule::Collective::all_reduce, name).value_or_throw();
  const algorithms::ScheduleSpec spec{
      schedule::Collective::all_reduce, 0, topology.size, 0, configured.arguments, topology.hosts};
  const std::vector<schedule::Schedule> schedules = algorithms::generate_all(*configured.algorithm, spec);
  return selection::predict(schedules, schedule::even_parts(bytes, schedule::part_count(schedules[0])),
                            spec.hosts, topology.model);
}

selection::Topology hosts_of(int hosts, int ranks) {
  selection::Topology topology{.size = hosts * ranks};
  for (int rank = 0; rank < topology.size; ++rank) topology.hosts.push_back(rank / ranks);
  topology.links_inside = {.names = "shm", .share_memory = true};
  topology.links_between = "tcp";
  return topology;
}

// If schedules are too long to be simulated, ranks of a host still share its link.
TEST(Chooser, KnowsThatRanksOfAHostShareItsLinkHoweverManyThereAre) {
  for (const auto& [hosts, ranks] : {std::pair{8, 16}, {9, 16}, {33, 4}}) {
    const selection::Topology topology = hosts_of(hosts, ranks);
    const std::uint64_t bytes = 64 << 20;
    const std::string picked = pick_anew(topology, bytes);
    EXPECT_LT(played(topology, picked, bytes), 1.5 * played(topology, "ring", bytes))
        << picked << " for " << hosts << " hosts of " << ranks;
  }
}

TEST(Chooser, PicksForTheUpperEndOfAClassOfSizes) {
  for (const int size : {3, 6}) {
    selection::Topology topology = hosts_of(2, size / 2);
    topology.size = size;
    topology.hosts.resize(static_cast<std::size_t>(size), 1);
    selection::Chooser chooser(topology);
    for (std::uint64_t power = 1024; power <= 1 << 20; power *= 2) {
      for (const std::uint64_t bytes : {power + 8, power + power / 2, 2 * power}) {
        const Call call{bytes / 4 * 4};
        const double best = chooser.ranking({}, bytes)[0].seconds;
        EXPECT_LT(played(topology, pick(chooser, call), bytes), 2 * best) << bytes << " among " << size;
      }
    }
  }
}

TEST(Chooser, RunsInSharedMemoryHoweverManyRanksShareMemory) {
  for (const int size : {2, 128, 129, 300}) {
    selection::Topology topology{.size = size};
    topology.links_inside = {.names = "shm", .share_memory = true};
    topology.shares_memory = true;
    EXPECT_EQ(pick_anew(topology, 1 << 20), "direct") << size;
  }
}

// The table has the time of the shared-memory algorithm, which cannot run the caller's own reduction.
TEST(Chooser, DoesNotTakeATimeThatWasMeasuredInSharedMemoryForOneOfMessages) {
  selection::Topology topology{.size = 4};
  topology.links_inside = {.names = "shm", .share_memory = true};
  topology.shares_memory = true;
  topology.table.set_time({"shm", "4"}, schedule::Collective::all_reduce, 1024, "direct", 1e-6);
  topology.table.set_time({"shm", "4"}, schedule::Collective::all_reduce, 1024, "k_nomial", 5e-6);
  Call call{1024};
  EXPECT_EQ(pick_anew(topology, call.bytes, call.key), "direct");
  call.key.op = ReduceOp::custom;
  EXPECT_EQ(pick_anew(topology, call.bytes, call.key), "k_nomial");
  call.key.op = ReduceOp::sum;
  topology.shares_memory = false;  // the communicator has no lane
  EXPECT_EQ(pick_anew(topology, call.bytes, call.key), "k_nomial");
}

TEST(Chooser, IsQuickForAThousandRanks) {
  selection::Chooser chooser({.size = 1000});
  Call call{64 << 20};
  EXPECT_EQ(pick(chooser, call).find(' '), std::string::npos);
  call.key.wire = Wire::int8;
  EXPECT_EQ(pick(chooser, call).find(' '), std::string::npos);
}

TEST(Candidates, LeaveOutWhatTakesTooLongToLookAt) {
  const auto few = selection::candidates({schedule::Collective::all_reduce, 0, 8, 0}, {});
  const auto many = selection::candidates({schedule::Collective::all_reduce, 0, 1000, 0}, {});
  EXPECT_EQ(many.front().name(), "ring");
  EXPECT_LE(many.size(), few.size());
  for (const algorithms::ConfiguredAlgorithm& candidate : many) {
    if (candidate.name() == "ring") continue;
    EXPECT_LT(candidate.algorithm->closed_form
                  .of({schedule::Collective::all_reduce, 0, 1000, 0, candidate.arguments})
                  .steps,
              100u)
        << candidate.name();
  }
}

}  // namespace
}  // namespace kolo
