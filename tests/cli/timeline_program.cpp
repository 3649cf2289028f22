// A rank whose calls and spans overlap as those of a training step do. Rank 0 leaves the timeline of all
// ranks in the file that the first argument names.
#include <kolo/kolo.hpp>

#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

void compute(kolo::Timeline& timeline, const char* name, microseconds time) {
  const auto begin = Clock::now();
  while (Clock::now() < begin + time) {
  }
  timeline.span(name, "compute", begin, Clock::now());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto timeline = std::make_shared<kolo::Timeline>();
    kolo::Communicator c = kolo::Communicator::create({.timeline = timeline});
    const int next = (c.rank() + 1) % c.size();
    const int before = (c.rank() + c.size() - 1) % c.size();
    std::vector<std::vector<float>> buckets;
    for (std::size_t count = 1 << 18; count >= 1 << 10; count /= 4) buckets.emplace_back(count);
    std::vector<float> sent(100'000), received(100'000);
    for (int step = 0; step < 3; ++step) {
      if (argc > 2 && step == 2 && c.rank() == std::atoi(argv[2])) ::raise(SIGKILL);
      const auto begin = Clock::now();
      std::vector<kolo::Work> works = {c.recv_async(received, before), c.send_async(sent, next)};
      for (std::vector<float>& bucket : buckets) {
        compute(*timeline, "layer", microseconds(300));
        works.push_back(c.all_reduce_async(bucket));
      }
      for (const kolo::Work& work : works) work.wait();
      timeline->span("step", "compute", begin, Clock::now());
      // Two threads of the program that write on one track.
      timeline->span("load", "data", begin, begin + microseconds(200));
      timeline->span("load", "data", begin + microseconds(100), begin + microseconds(300));
    }
    kolo::write_timeline(c, *timeline, argv[1]);
  } catch (const kolo::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
