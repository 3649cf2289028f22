// One rank of the soak on an emulated cluster: collectives whose results are checked, until it is told to
// stop. After a failure it goes on with the survivors, if they are more than half. It prints events, one JSON
// object a line, with times of the monotonic clock, which all hosts share.
#include <kolo/kolo.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "stress/belongings.hpp"
#include "stress/random.hpp"

namespace kolo::stress {
namespace {

constexpr std::int32_t kPeriod = 1021;  // element i of a rank's data is its base + i modulo this
constexpr int kCallsBetweenAgreements = 8;
constexpr int kOut = 3;  // exit code: taken for dead, or in the lesser half

volatile std::sig_atomic_t wants_stop = 0;
volatile std::sig_atomic_t wants_renewal = 0;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

std::string list_of(const std::vector<std::int32_t>& numbers) {
  std::string out;
  for (const std::int32_t n : numbers) out += (out.empty() ? "" : ",") + std::to_string(n);
  return "[" + out + "]";
}

long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::atol(line.c_str() + 6);
  }
  return 0;
}

class Soak {
 public:
  Soak(Communicator world, std::uint64_t seed, std::uint64_t most) : most_(most), random_(seed) {
    for (int r = 0; r < world.size(); ++r) members_.push_back(r);
    begin(std::move(world));
  }

  /// Until all agree to stop. False: this rank is out.
  bool run() {
    for (;;) {
      try {
        call_until_stopped();
        return true;
      } catch (const PeerLostError& error) {
        tell_failure("peer_lost", error);
      } catch (const TimeoutError& error) {
        tell_failure("timeout", error);
      }
      if (!shrink()) return false;
    }
  }

 private:
  void begin(Communicator next) {
    current_ = std::move(next);
    tell_state("ready");
  }

  void tell_state(const char* event) {
    const Belongings mine = Belongings::look();
    std::printf(
        "{\"event\":\"%s\",\"at\":%.6f,\"done\":%llu,\"members\":%s,\"descriptors\":%d,\"threads\":%d,"
        "\"resident_kib\":%ld}\n",
        event, now(), static_cast<unsigned long long>(done_), list_of(members_).c_str(), mine.descriptors,
        mine.threads, resident_kib());
  }

  void tell_failure(const char* kind, const Error& error) {
    const ErrorContext& context = error.context();
    const int blamed = context.peer < 0 ? -1 : members_[static_cast<std::size_t>(context.peer)];
    std::printf(
        "{\"event\":\"failed\",\"at\":%.6f,\"done\":%llu,\"kind\":\"%s\",\"blamed\":%d,\"number\":%d,"
        "\"collective\":%s,\"step\":%d,\"text\":%s}\n",
        now(), static_cast<unsigned long long>(done_), kind, blamed, context.peer,
        quoted(context.collective).c_str(), context.step, quoted(error.what()).c_str());
  }

  /// Whether this rank goes on.
  bool shrink() {
    const std::size_t before = members_.size();
    const double begun = now();
    for (;;) {
      try {
        Communicator next = current_.shrink();
        const double ended = now();
        std::vector<std::int32_t> left(static_cast<std::size_t>(next.size()));
        const std::int32_t me = members_[static_cast<std::size_t>(current_.rank())];
        next.all_gather(std::vector<std::int32_t>{me}, left);
        members_ = left;
        std::printf("{\"event\":\"shrunk\",\"at\":%.6f,\"took\":%.6f,\"members\":%s}\n", ended, ended - begun,
                    list_of(left).c_str());
        if (2 * left.size() <= before && before > 2) return false;
        begin(std::move(next));
        return true;
      } catch (const PeerLostError& error) {
        std::printf("{\"event\":\"out\",\"at\":%.6f,\"text\":%s}\n", now(), quoted(error.what()).c_str());
        return false;
      }
    }
  }

  void call_until_stopped() {
    // All start anew from the same place, however far each of them came before the failure.
    std::uint64_t call = 0;
    std::uint64_t seed = agreed_seed();
    for (double told = 0;; ++call) {
      if (call % kCallsBetweenAgreements == 0) {
        const std::int32_t wishes = agree(wants_stop + 2 * wants_renewal);
        if (wishes & 1) return;
        if (wishes & 2) renew();
      }
      Random random(seed + call);
      one(random);
      ++done_;
      if (now() - told < 0.1) continue;
      told = now();
      std::printf("{\"event\":\"tick\",\"at\":%.6f,\"done\":%llu}\n", told,
                  static_cast<unsigned long long>(done_));
    }
  }

  std::int32_t agree(std::int32_t wishes) {
    std::vector<std::int32_t> all{wishes};
    current_.all_reduce(all, ReduceOp::max);
    return all[0];
  }

  std::uint64_t agreed_seed() {
    std::vector<std::int64_t> seed{static_cast<std::int64_t>(random_.next())};
    current_.broadcast(seed, 0);
    return static_cast<std::uint64_t>(seed[0]);
  }

  /// A new communicator of the same ranks, of which nothing may remain when the old one is gone.
  void renew() {
    wants_renewal = 0;
    const std::size_t before = members_.size();
    Communicator next = current_.shrink();
    if (static_cast<std::size_t>(next.size()) != before) fail("a rank was lost in a renewal");
    current_ = std::move(next);
    current_.barrier();
    tell_state("renewed");
  }

  [[noreturn]] void fail(const std::string& what) {
    std::printf("{\"event\":\"wrong\",\"at\":%.6f,\"text\":%s}\n", now(), quoted(what).c_str());
    std::exit(1);
  }

  void fill(std::vector<std::int32_t>& data, std::int32_t base) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = base + static_cast<std::int32_t>(i) % kPeriod;
  }

  /// data[i] == base + times * (at + i modulo the period).
  void expect(const std::vector<std::int32_t>& data, std::size_t from, std::size_t count, std::int32_t base,
              std::int32_t times, std::size_t at, const char* what) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto wanted = base + times * (static_cast<std::int32_t>(at + i) % kPeriod);
      if (data[from + i] != wanted) fail(std::string("a wrong result of ") + what);
    }
  }

  void one(Random& random) {
    const auto size = static_cast<std::size_t>(current_.size());
    const auto me = static_cast<std::size_t>(current_.rank());
    const std::uint64_t ceiling = std::uint64_t{1} << random.below(21);
    const std::size_t count = 1 + random.below(std::min(most_, ceiling));
    std::vector<std::int32_t> bases;
    for (std::size_t r = 0; r < size; ++r) bases.push_back(static_cast<std::int32_t>(random.below(1 << 16)));
    const std::int32_t sum = std::accumulate(bases.begin(), bases.end(), 0);
    const auto n = static_cast<std::int32_t>(size);
    std::vector<std::int32_t> in(count), out(count);
    std::size_t root = 0;
    switch (random.below(5)) {
      case 0:
        fill(in, bases[me]);
        current_.all_reduce(in, out);
        expect(out, 0, count, sum, n, 0, "all_reduce");
        expect(in, 0, count, bases[me], 1, 0, "all_reduce: its input has changed");
        return;
      case 1:
        fill(out, bases[me]);
        current_.all_reduce(out);
        expect(out, 0, count, sum, n, 0, "all_reduce in place");
        return;
      case 2:
        root = random.below(size);
        if (me == root) fill(out, bases[me]);
        current_.broadcast(out, static_cast<int>(root));
        expect(out, 0, count, bases[root], 1, 0, "broadcast");
        return;
      case 3:
        out.resize(count * size);
        fill(in, bases[me]);
        current_.all_gather(in, out);
        for (std::size_t r = 0; r < size; ++r) expect(out, r * count, count, bases[r], 1, 0, "all_gather");
        return;
      default:
        in.resize(count * size);
        fill(in, bases[me]);
        current_.reduce_scatter(in, out);
        expect(out, 0, count, sum, n, me * count, "reduce_scatter");
    }
  }

  const std::uint64_t most_;
  Random random_;
  Communicator current_;
  std::vector<std::int32_t> members_;  // the first communicator's ranks
  std::uint64_t done_ = 0;
};

}  // namespace
}  // namespace kolo::stress

int main(int argc, char** argv) {
  using namespace kolo::stress;
  if (argc != 3) return 2;  // SEED MOST_ELEMENTS
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);
  std::signal(SIGUSR1, [](int) { wants_stop = 1; });
  std::signal(SIGUSR2, [](int) { wants_renewal = 1; });
  try {
    Soak soak(kolo::Communicator::create(), std::strtoull(argv[1], nullptr, 10),
              std::strtoull(argv[2], nullptr, 10));
    return soak.run() ? 0 : kOut;
  } catch (const std::exception& error) {
    std::printf("{\"event\":\"wrong\",\"at\":%.6f,\"text\":%s}\n", now(), quoted(error.what()).c_str());
    return 1;
  }
}
