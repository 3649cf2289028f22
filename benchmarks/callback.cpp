// bench_callback: how long an asynchronous all_reduce of 64 KiB takes until its callback runs, with no thread
// that waits, beside the blocking call and the wake-up of a thread, in turns. Two ranks, as processes.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "kolo/kolo.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

double median(std::vector<double>& values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// Another thread, which sleeps on a futex until wake().
class Sleeper {
 public:
  ~Sleeper() {
    ends_ = true;
    wakes_.release();
    thread_.join();
  }
  double wake() {
    std::this_thread::sleep_for(std::chrono::microseconds(50));  // until it sleeps
    const auto begin = Clock::now();
    wakes_.release();
    woken_.acquire();
    return microseconds(at_ - begin);
  }

 private:
  std::binary_semaphore wakes_{0}, woken_{0};
  Clock::time_point at_;
  bool ends_ = false;
  std::thread thread_{[this] {
    for (wakes_.acquire(); !ends_; wakes_.acquire()) {
      at_ = Clock::now();
      woken_.release();
    }
  }};
};

void measure(kolo::Communicator& communicator, const char* transports, const char* memory,
             kolo::Buffer data) {
  constexpr int kRounds = 3000;
  Sleeper sleeper;
  std::vector<double> wake, blocking, then;
  const auto idle = [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); };
  for (int round = -kRounds / 10; round < kRounds; ++round) {
    const double woken = sleeper.wake();
    idle();
    communicator.barrier();
    auto begin = Clock::now();
    communicator.all_reduce(data, kolo::ReduceOp::max);
    const double blocked = microseconds(Clock::now() - begin);
    idle();
    communicator.barrier();
    std::binary_semaphore called{0};
    Clock::time_point at;
    begin = Clock::now();
    communicator.all_reduce_async(data, kolo::ReduceOp::max).then([&](const kolo::Work&) {
      at = Clock::now();
      called.release();
    });
    called.acquire();
    if (round < 0) continue;
    wake.push_back(woken);
    blocking.push_back(blocked);
    then.push_back(microseconds(at - begin));
  }
  if (communicator.rank() > 0) return;
  const double price = median(wake), call = median(blocking);
  std::printf(
      "%-4s %-8s wake-up %6.1f us   blocking %6.1f us   callback %6.1f us   twice and a wake-up %6.1f us\n",
      transports, memory, price, call, median(then), 2 * call + price);
}

void run_rank(const std::string& file, int rank, const char* transports) {
  constexpr std::size_t kCount = 16'384;
  auto communicator =
      kolo::Communicator::create(kolo::make_file_store(file), rank, 2, {.transports = transports});
  std::vector<float> own(kCount);
  measure(communicator, transports, "private", own);
  if (std::string(transports) != "shm") return;
  const kolo::SharedMemory shared(kCount * sizeof(float));
  measure(communicator, transports, "shared", shared.buffer(kCount, kolo::DType::float32));
}

}  // namespace

int main() {
  for (const char* const transports : {"shm", "tcp"}) {
    std::string folder = std::filesystem::temp_directory_path() / "kolo-callback-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) return 1;
    std::fflush(stdout);
    const pid_t other = ::fork();
    run_rank(folder + "/store", other == 0 ? 1 : 0, transports);
    if (other == 0) return 0;
    int status = 0;
    ::waitpid(other, &status, 0);
    std::filesystem::remove_all(folder);
    if (status != 0) return 1;
  }
}
