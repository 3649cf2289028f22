// KOLO_WIRE: the wire format of calls that name none. The environment is read once, so each test runs in a
// process of its own.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "support/cluster.hpp"

namespace kolo::test {
namespace {

constexpr std::uint64_t kWireCount = 1 << 16;

[[noreturn]] void run_with(const char* wire, const ClusterOptions& options,
                           const std::function<void(Communicator&)>& body) {
  ::setenv("KOLO_WIRE", wire, 1);
  const Outcome outcome = run_ranks(options, body);
  std::fprintf(stderr, "%s\n", outcome.all_ok() ? "all is well" : outcome.describe().c_str());
  std::_Exit(outcome.all_ok() ? 0 : 1);
}

/// Bytes that this rank sends in one sum of data of type T.
template <typename T>
std::uint64_t sent_by(Communicator& c, const Reduction& reduction = ReduceOp::sum,
                      const CallOptions& options = {}) {
  std::vector<T> data(kWireCount, T{1});
  const std::uint64_t before = c.counters().bytes_sent;
  c.all_reduce(data, reduction, options);
  return c.counters().bytes_sent - before;
}

void expect(std::uint64_t got, std::uint64_t wanted, const char* what) {
  if (got == wanted) return;
  throw std::runtime_error(std::string(what) + ": " + std::to_string(got) + " bytes sent, not " +
                           std::to_string(wanted));
}

TEST(WireFromTheEnvironment, IsUsedWhereItFitsAndNothingElseIsSaid) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto body = [](Communicator& c) {
    const std::uint64_t whole = kWireCount * sizeof(float);
    expect(sent_by<float>(c), whole / 2, "as the environment says");
    expect(sent_by<float>(c, ReduceOp::average), whole / 2, "average");
    expect(sent_by<float>(c, ReduceOp::sum, {.wire = Wire::int8}), whole / 4 + kWireCount / 256 * 4, "int8");
    expect(sent_by<float>(c, ReduceOp::sum, {.wire = Wire::native}), whole, "native");
    expect(c.estimate("all_reduce", whole).bytes_sent, whole / 2, "an estimate as the environment says");
    expect(c.estimate("all_reduce", whole, {.wire = Wire::native}).bytes_sent, whole, "an estimate, native");
    // The wire format does not apply to these calls.
    expect(sent_by<float>(c, ReduceOp::max), whole, "max");
    expect(sent_by<double>(c), 2 * whole, "float64");
    expect(sent_by<float>(c, ReduceOp::sum, {.algorithm = "recursive_doubling"}), whole, "an algorithm");
  };
  EXPECT_EXIT(run_with("bfloat16", {.size = 2, .transport = "tcp"}, body), ::testing::ExitedWithCode(0),
              "all is well");
}

TEST(WireFromTheEnvironment, IsNotUsedWithinOneHostsMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto body = [](bool rounds) {
    return [rounds](Communicator& c) {
      std::vector<float> data(1000);
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i) + 0.25f;
      c.all_reduce(data);
      bool rounded = false;
      for (std::size_t i = 0; i < data.size(); ++i) {
        rounded = rounded || data[i] != 3 * (static_cast<float>(i) + 0.25f);
      }
      if (rounded != rounds) throw std::runtime_error(rounds ? "not rounded" : "rounded");
    };
  };
  EXPECT_EXIT(run_with("int8", {.size = 3, .transport = "shm"}, body(false)), ::testing::ExitedWithCode(0),
              "all is well");
  EXPECT_EXIT(run_with("int8", {.size = 3, .transport = "tcp"}, body(true)), ::testing::ExitedWithCode(0),
              "all is well");
}

}  // namespace
}  // namespace kolo::test
