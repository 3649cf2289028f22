// What kolo plan step computes and prints, and the quantities that it reads.
#include "plan/step.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "kolo/error.hpp"
#include "plan/quantities.hpp"
#include "text/columns.hpp"

namespace kolo::test {
namespace {

using plan::Communication;
using plan::TrainingJob;

constexpr std::uint64_t kMiB = 1 << 20;

/// The job of the documentation: 300 million float32 parameters, links of 1.2 GB/s.
TrainingJob known_job(int workers = 10) {
  return {
      .bytes = 1'200'000'000, .compute = 0.3, .backward = 0.2, .workers = workers, .bytes_per_second = 1.2e9};
}

Communication price(const TrainingJob& job, std::string_view algorithm) {
  return plan::price(
      job, algorithms::parse_algorithm(schedule::Collective::all_reduce, algorithm).value_or_throw());
}

TEST(PlanStep, AServersLinkCarriesNMinusOneGradientsEachWay) {
  for (const char* algorithm : {"parameter_server:servers=1", "central"}) {
    const Communication priced = price(known_job(), algorithm);
    EXPECT_NEAR(priced.in, 9, 1e-9) << algorithm;
    EXPECT_NEAR(priced.out, 9, 1e-9) << algorithm;
    EXPECT_NEAR(priced.both_at_once(), 9, 1e-9) << algorithm;
    EXPECT_NEAR(priced.in_turns(), 18, 1e-9) << algorithm;
  }
}

TEST(PlanStep, ARingsLinksCarryLessThanTwoGradientsEachWay) {
  for (const int workers : {2, 4, 8, 10, 100}) {
    const Communication priced = price(known_job(workers), "ring");
    const double bound = 2.0 * (workers - 1) / workers;
    EXPECT_NEAR(priced.in, bound, 1e-6) << workers;
    EXPECT_NEAR(priced.out, bound, 1e-6) << workers;
    EXPECT_NEAR(priced.expected, bound, 0.03 * bound) << workers;
    EXPECT_EQ(priced.least, priced.most) << "connections of a ring share no link";
  }
}

TEST(PlanStep, UnevenConnectionsCostWhatTheOthersBring) {
  TrainingJob job = known_job();
  const Communication typical = price(job, "central");
  EXPECT_NEAR(typical.least, 9, 0.02) << "alike: in and out at once";
  EXPECT_NEAR(typical.most, typical.least + 8, 1e-9)
      << "in turns: the last one's results leave after all others";
  EXPECT_NEAR(typical.expected, typical.least + 8 * plan::kTypicalUnevenness, 1e-9);
  job.unevenness = 1;
  EXPECT_NEAR(price(job, "central").expected, typical.most, 1e-9);
  job.workers = 2;
  const Communication alone = price(job, "central");
  EXPECT_EQ(alone.least, alone.most) << "one connection shares no link";
}

TEST(PlanStep, ServersShareOutTheData) {
  const Communication priced = price(known_job(), "parameter_server:servers=2");
  EXPECT_NEAR(priced.most - priced.least, 4, 1e-6);
  EXPECT_EQ(priced.bottleneck, "each server's link, in");
}

TEST(PlanStep, ResultsLeavePieceByPiece) {
  TrainingJob job = known_job(2);
  job.bytes = 4 * kMiB;
  job.bytes_per_second = 4 * kMiB;
  EXPECT_NEAR(price(job, "central").expected, 1 + 1 / 8.0, 0.01) << "the last of 8 pieces of 512 KiB";
  job.bytes = 64 * kMiB;
  job.bytes_per_second = 64 * kMiB;
  EXPECT_NEAR(price(job, "central").expected, 1 + 1 / 128.0, 0.005);
}

TEST(PlanStep, NamesTheBottleneck) {
  EXPECT_EQ(price(known_job(), "parameter_server:servers=1").bottleneck, "the server's link, in");
  EXPECT_EQ(price(known_job(), "central").bottleneck, "the driver's link, in");
  EXPECT_EQ(price(known_job(), "ring").bottleneck, "every worker's link, both ways");
  EXPECT_EQ(price(known_job(), "halving_doubling").bottleneck, "some workers' link, both ways");
  EXPECT_EQ(price(known_job(8), "halving_doubling").bottleneck, "every worker's link, both ways");
  TrainingJob fast = known_job();
  fast.bytes_per_second = 1e12;
  EXPECT_EQ(price(fast, "ring").bottleneck, "every worker's processor");
  EXPECT_EQ(price(fast, "central").bottleneck, "the driver's processor");
}

TEST(PlanStep, ManyWorkersAreNotPlayed) {
  const Communication played = price(known_job(64), "ring");
  const Communication counted = price(known_job(65), "ring");
  EXPECT_NEAR(counted.expected, played.expected, 0.03 * played.expected);
}

TEST(PlanStep, WithoutOverlapAStepIsComputeAndCommunication) {
  Communication communication;
  communication.expected = 0.9;
  communication.bottleneck = "the link";
  const auto step = plan::without_overlap(known_job(), communication);
  EXPECT_NEAR(step.seconds, 1.2, 1e-12);
  EXPECT_NEAR(step.communication, 0.75, 1e-12);
  EXPECT_NEAR(step.efficiency, 0.25, 1e-12);
  EXPECT_EQ(step.bottleneck, "the link");
  communication.expected = 0.2;
  EXPECT_EQ(plan::without_overlap(known_job(), communication).bottleneck, "compute");
}

TEST(PlanStep, OverlapHidesCommunicationUnderBackward) {
  TrainingJob job = known_job();
  job.bytes = 10 * kMiB;  // the first bucket is a tenth of backward
  Communication communication;
  communication.bottleneck = "the link";
  communication.expected = 0.17;
  auto step = plan::with_overlap(job, communication);
  EXPECT_NEAR(step.seconds, 0.3, 1e-12) << "0.02 + 0.17 fit under a backward of 0.2";
  EXPECT_NEAR(step.communication, 0, 1e-12);
  EXPECT_NEAR(step.efficiency, 1, 1e-12);
  EXPECT_EQ(step.bottleneck, "compute");
  communication.expected = 0.28;
  step = plan::with_overlap(job, communication);
  EXPECT_NEAR(step.seconds, 0.1 + 0.02 + 0.28, 1e-12);
  EXPECT_NEAR(step.communication, 0.25, 1e-12);
  EXPECT_EQ(step.bottleneck, "the link");
  job.bytes = 1000;  // one bucket: ready when backward ends
  EXPECT_NEAR(plan::with_overlap(job, communication).seconds, 0.3 + 0.28, 1e-12);
}

TEST(PlanStep, ColumnsLineUp) {
  for (const double bytes_per_second : {1e12, 1.2e9, 1e6, 100.0}) {
    TrainingJob job = known_job();
    job.bytes_per_second = bytes_per_second;
    std::vector<plan::PricedRow> rows;
    for (const char* algorithm : {"parameter_server:servers=1", "ring"})
      rows.push_back({price(job, algorithm), rows.empty()});
    std::istringstream narrow(plan::step_tables(job, rows, cli::kTerminalWidth));
    const std::size_t width = cli::kTerminalWidth + (bytes_per_second < 1e3 ? 8 : 0);  // times of many years
    for (std::string line; std::getline(narrow, line);) EXPECT_LE(line.size(), width) << line;
    std::istringstream lines(plan::step_tables(job, rows, cli::kAnyWidth));
    std::size_t end = 0;
    for (std::string line; std::getline(lines, line);) {
      // Numbers are right-aligned with their column heads.
      if (const auto head = line.find(" in turns"); head != std::string::npos) end = head + 9;
      if (const auto head = line.find(" speedup"); head != std::string::npos) end = head + 8;
      if (!line.starts_with("  ")) continue;
      ASSERT_GT(line.size(), end);
      EXPECT_NE(line[end - 1], ' ') << line;
      EXPECT_EQ(line[end], ' ') << line;
    }
    EXPECT_GT(end, 0u);
  }
}

TEST(Quantities, AreReadWithTheirUnits) {
  const auto bytes = [](const char* text) { return plan::parse_bytes("--bytes", text); };
  EXPECT_EQ(bytes("1.2G"), 1'288'490'189u) << "as in all commands";
  EXPECT_EQ(bytes("1.2GB"), 1'200'000'000u);
  EXPECT_EQ(bytes("25MiB"), 25 * kMiB);
  EXPECT_EQ(bytes("25mi"), 25 * kMiB);
  EXPECT_EQ(bytes("0.5Ki"), 512u);
  EXPECT_EQ(bytes("1"), 1u);
  EXPECT_EQ(bytes("1000TB"), 1'000'000'000'000'000u);
  EXPECT_DOUBLE_EQ(plan::parse_seconds("--compute", "300ms"), 0.3);
  EXPECT_DOUBLE_EQ(plan::parse_seconds("--compute", "1.5s"), 1.5);
  EXPECT_DOUBLE_EQ(plan::parse_seconds("--compute", "2min"), 120);
  EXPECT_EQ(plan::parse_seconds("--compute", "0"), 0);
  EXPECT_DOUBLE_EQ(plan::parse_rate("--rate", "9.6gbit"), 1.2e9);
  EXPECT_DOUBLE_EQ(plan::parse_rate("--rate", "9.6Gbit/s"), 1.2e9);
  EXPECT_DOUBLE_EQ(plan::parse_rate("--rate", "1.2GB/s"), 1.2e9);
  EXPECT_DOUBLE_EQ(plan::parse_rate("--rate", "800bit"), 100);
  EXPECT_DOUBLE_EQ(plan::parse_share("--backward", "67%"), 0.67);
  EXPECT_DOUBLE_EQ(plan::parse_share("--backward", "0.67"), 0.67);
}

TEST(Quantities, AreRefusedWithWhatIsAccepted) {
  const auto why = [](auto parse, const char* text) -> std::string {
    try {
      parse("--option", text);
    } catch (const InvalidArgumentError& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const char* text : {"", "G", "-1", "1e9", "1.2X", "1 G", "nan", "inf", "0", "0.1", "2000T"})
    EXPECT_NE(why(plan::parse_bytes, text).find("such as 64K, 1.5MiB or 1.2GB"), std::string::npos) << text;
  for (const char* text : {"", "300", "-1s", "300m", "1e3s", "1000000001s"})
    EXPECT_NE(why(plan::parse_seconds, text).find("such as 300ms"), std::string::npos) << text;
  for (const char* text : {"", "0gbit", "10", "10G", "9.6gbits", "-1gbit", "1000000tbit"})
    EXPECT_NE(why(plan::parse_rate, text).find("such as 9.6gbit or 1.2GB/s"), std::string::npos) << text;
  for (const char* text : {"", "1.1", "-0.1", "101%", "half"})
    EXPECT_NE(why(plan::parse_share, text).find("such as 0.67 or 67%"), std::string::npos) << text;
}

TEST(Quantities, ArePrintedForPeople) {
  EXPECT_EQ(plan::with_separators(0), "0");
  EXPECT_EQ(plan::with_separators(999), "999");
  EXPECT_EQ(plan::with_separators(1'200'000'000), "1,200,000,000");
  EXPECT_EQ(plan::format_bytes(1.2e9), "1.2 GB");
  EXPECT_EQ(plan::format_bytes(1), "1 B");
  EXPECT_EQ(plan::format_bits(1.2e9), "9.6 Gbit/s");
  EXPECT_EQ(plan::format_duration(0.3), "300 ms");
  EXPECT_EQ(plan::format_duration(12'345), "12345 s");
  EXPECT_EQ(plan::format_duration(0), "0 s");
}

}  // namespace
}  // namespace kolo::test
