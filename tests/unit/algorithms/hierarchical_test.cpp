// Claims about hierarchical all_reduce: it combines any two algorithms on any hosts, and only leaders send
// between hosts.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "schedule/checker.hpp"
#include "unit/algorithms/all_ranks.hpp"

namespace kolo {
namespace {

algorithms::ConfiguredAlgorithm hierarchical(const std::string& arguments) {
  return algorithms::parse_algorithm(schedule::Collective::all_reduce, "hierarchical" + arguments).value();
}

/// Ranks assigned to hosts round-robin.
std::vector<int> interleaved(int size, int hosts) {
  std::vector<int> result;
  for (int rank = 0; rank < size; ++rank) result.push_back(rank % hosts);
  return result;
}

std::vector<std::vector<int>> ways_to_host(int size) {
  return {uneven_hosts(size), interleaved(size, 2), interleaved(size, 3)};
}

int leader(const std::vector<int>& hosts, int rank) {
  return static_cast<int>(std::ranges::find(hosts, hosts[static_cast<std::size_t>(rank)]) - hosts.begin());
}

TEST(Hierarchical, IsProvedWithAnyTwoAlgorithmsOnAnyHosts) {
  for (const algorithms::Algorithm& across : algorithms::algorithms()) {
    if (across.collective != schedule::Collective::all_reduce || across.name == "hierarchical") continue;
    for (const std::string inside : {"binomial", "direct", "k_nomial", "chain"}) {
      const algorithms::ConfiguredAlgorithm variant =
          hierarchical(":inside=" + inside + ":across=" + std::string(across.name));
      for (int size = 1; size <= 12; ++size) {
        for (const std::vector<int>& hosts : ways_to_host(size)) {
          if (!serves(variant, size, 0, hosts)) continue;
          const auto schedules = all_ranks(variant, size, 0, hosts);
          for (const auto& counts : awkward_counts(schedule::part_count(schedules[0]))) {
            const Status status = schedule::check_schedules(schedules, counts);
            ASSERT_TRUE(status.ok()) << variant.name() << ", " << size << " ranks: " << status.message();
          }
        }
      }
    }
  }
}

TEST(Hierarchical, CrossesBordersOnlyBetweenLeadersAndSendsNoMoreThanTheyWouldAlone) {
  for (const algorithms::Algorithm& across : algorithms::algorithms()) {
    if (across.collective != schedule::Collective::all_reduce || across.name == "hierarchical") continue;
    const algorithms::ConfiguredAlgorithm variant = hierarchical(":across=" + std::string(across.name));
    for (int size = 2; size <= 24; ++size) {
      for (const std::vector<int>& hosts : ways_to_host(size)) {
        if (!serves(variant, size, 0, hosts)) continue;
        const int host_count = *std::ranges::max_element(hosts) + 1;
        const algorithms::ScheduleSpec alone{schedule::Collective::all_reduce, 0, host_count};
        const std::uint64_t most = across.closed_form.of(alone).sent;
        const std::uint64_t most_of = across.generate(alone).chunks;
        for (const schedule::Schedule& schedule : all_ranks(variant, size, 0, hosts)) {
          std::uint64_t sent = 0;
          for (const schedule::Step& step : schedule.steps) {
            if (step.kind != schedule::StepKind::send) continue;
            if (leader(hosts, schedule.rank) == leader(hosts, step.peer)) continue;
            EXPECT_EQ(leader(hosts, schedule.rank), schedule.rank);
            EXPECT_EQ(leader(hosts, step.peer), step.peer);
            sent += step.a.count;
          }
          if (host_count > 1) {
            EXPECT_LE(sent * most_of, most * schedule.chunks) << variant.name() << ", " << size << " ranks";
          }
        }
      }
    }
  }
}

TEST(Hierarchical, CostsTheSumOfItsPartsOnEqualHosts) {
  const auto cost = [](schedule::Collective collective, const std::string& name, int size) {
    return algorithms::find_algorithm(collective, name)->closed_form.of({collective, 0, size});
  };
  for (const std::string inside : {"binomial", "direct", "k_nomial"}) {
    const algorithms::ConfiguredAlgorithm variant = hierarchical(":inside=" + inside + ":across=ring");
    for (int hosts = 2; hosts <= 6; ++hosts) {
      for (int each = 1; each <= 6; ++each) {
        const auto schedules = all_ranks(variant, hosts * each, 0, interleaved(hosts * each, hosts));
        const schedule::ScheduleTotals totals = schedule::count_totals(
            schedules, std::vector<std::uint64_t>(schedule::part_count(schedules[0]), 1));
        const algorithms::StepsAndBytes reduce = cost(schedule::Collective::reduce, inside, each);
        const algorithms::StepsAndBytes ring = cost(schedule::Collective::all_reduce, "ring", hosts);
        const algorithms::StepsAndBytes broadcast = cost(schedule::Collective::broadcast, inside, each);
        EXPECT_EQ(totals.steps, reduce.steps + ring.steps + broadcast.steps);
        const auto ring_chunks = static_cast<std::uint64_t>(hosts);
        EXPECT_EQ(totals.max_sent, ring.sent + ring_chunks * broadcast.sent);
      }
    }
  }
}

TEST(Hierarchical, SaysWhichAlgorithmsItKnows) {
  const auto why = [](const std::string& arguments, int size) {
    const algorithms::ConfiguredAlgorithm one = hierarchical(arguments);
    return algorithms::supports(*one.algorithm, {schedule::Collective::all_reduce, 0, size, 0, one.arguments,
                                                 interleaved(size, 3)})
        .message();
  };
  EXPECT_EQ(why("", 7), "");
  EXPECT_NE(why(":inside=scatter_all_gather", 7)
                .find("has no 'scatter_all_gather' to take inside; it knows binomial, direct"),
            std::string::npos)
      << why(":inside=scatter_all_gather", 7);
  for (const char* wrong : {":across=hierarchical", ":across=dissemination"}) {
    EXPECT_NE(why(wrong, 7).find("to take across; it knows ring, central"), std::string::npos)
        << why(wrong, 7);
  }
}

TEST(Hierarchical, HandsArgumentsOn) {
  const std::vector<int> hosts = interleaved(7, 3);
  // Host 1's leader, rank 1, is spared: it sends each of the other two leaders its half once.
  const auto schedules = all_ranks(hierarchical(":across=parameter_server+chunks=4+spared=1"), 7, 0, hosts);
  std::uint64_t sent = 0;
  for (const schedule::Step& step : schedules[1].steps) {
    if (step.kind == schedule::StepKind::send && hosts[static_cast<std::size_t>(step.peer)] != 1)
      sent += step.a.count;
  }
  EXPECT_EQ(sent, schedules[1].chunks);
  const auto why = [&](const std::string& arguments) {
    const algorithms::ConfiguredAlgorithm one = hierarchical(arguments);
    return algorithms::supports(*one.algorithm,
                                {schedule::Collective::all_reduce, 0, 7, 0, one.arguments, hosts})
        .message();
  };
  EXPECT_EQ(why(":inside=chain+chunks=2:across=ring+order=2-0-1"), "");
  EXPECT_NE(why(":across=parameter_server+spared=3").find("can spare none but the ranks 0 to 2"),
            std::string::npos);
  EXPECT_NE(why(":across=ring+turns=2").find("'ring' has no parameter 'turns'"), std::string::npos);
  EXPECT_NE(why(":inside=chain+chunks=x").find("cannot take 'x' as its chunks"), std::string::npos);
}

}  // namespace
}  // namespace kolo
