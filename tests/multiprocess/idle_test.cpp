// The processor time of ranks that wait for a late rank.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <semaphore>
#include <thread>

#include "multiprocess/processes.hpp"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

/// One number from each rank.
class Figures {
 public:
  Figures()
      : shared_(static_cast<double*>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Figures() { munmap(shared_, kBytes); }
  Figures(const Figures&) = delete;
  double& operator[](int rank) const { return shared_[rank]; }

 private:
  static constexpr std::size_t kBytes = 4096;
  double* shared_;
};

constexpr double kMost =
    0.1;  // share of a core; the goal is 0.02, but interrupts of other programs count too

TEST(Idle, RanksThatWaitASecondForALateOneTakeLittleTime) {
  for (const int size : {2, 4}) {
    for (const std::size_t count : {std::size_t{2}, std::size_t{1'000'000}}) {
      const Figures took;
      Processes processes({.size = size}, [&](Communicator& c) {
        std::vector<float> data(count);
        for (int i = 0; i < 3; ++i) c.all_reduce(data);
        const double before = processor_seconds();
        if (c.rank() == 0) std::this_thread::sleep_for(1s);
        c.all_reduce(data);
        took[c.rank()] = processor_seconds() - before;
      });
      for (const RankEnd& end : processes.collect(20s)) EXPECT_EQ(end.code, 0) << end.error;
      for (int rank = 0; rank < size; ++rank) {
        EXPECT_LT(took[rank], kMost) << "rank " << rank << " of " << size;
        std::printf("%d ranks, %zu elements, rank %d %s: %.2f %% of a core\n", size, count, rank,
                    rank == 0 ? "sleeps" : "waits", 100 * took[rank]);
      }
    }
  }
}

TEST(Idle, ACallbackThatIsLongPendingTakesLittleTime) {
  for (const char* const transports : {"shm", "tcp"}) {
    const Figures took;
    Processes processes({.size = 2, .transports = transports}, [&](Communicator& c) {
      std::vector<float> data(1000);
      for (int i = 0; i < 3; ++i) c.all_reduce(data);
      const double before = processor_seconds();
      if (c.rank() == 0) std::this_thread::sleep_for(1s);
      std::binary_semaphore called{0};
      c.all_reduce_async(data).then([&](const Work&) { called.release(); });
      called.acquire();
      took[c.rank()] = processor_seconds() - before;
    });
    for (const RankEnd& end : processes.collect(20s)) EXPECT_EQ(end.code, 0) << end.error;
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_LT(took[rank], kMost) << "rank " << rank << " over " << transports;
      std::printf("%s, a callback of rank %d %s: %.2f %% of a core\n", transports, rank,
                  rank == 0 ? "comes late" : "waits", 100 * took[rank]);
    }
  }
}

}  // namespace
}  // namespace kolo::test
