#include "base/core_loss.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/unique_fd.hpp"

namespace kolo {
namespace {

// The system counts a running thread's time in ticks of up to 10 ms.
constexpr auto kWindow = std::chrono::milliseconds(64);

struct Times {
  double ran = 0;     // ns
  double waited = 0;  // ns, for a core
};

std::optional<Times> times_of_this_thread() {
  const UniqueFd file(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  if (!file.valid() || ::read(file.get(), text.data(), text.size() - 1) <= 0) return std::nullopt;
  Times times;
  if (std::sscanf(text.data(), "%lf %lf", &times.ran, &times.waited) != 2) return std::nullopt;
  return times;
}

struct Watch {
  Clock::time_point last{};
  Times seen{};    // at `last`
  Times recent{};  // halved in each window
};

}  // namespace

double core_loss(Clock::time_point now) {
  thread_local Watch watch;
  if (now - watch.last >= kWindow) {
    const auto times = times_of_this_thread();
    if (times && watch.last != Clock::time_point{}) {
      const double windows = std::floor((now - watch.last) / std::chrono::duration<double>(kWindow));
      const double kept = std::exp2(-windows);
      watch.recent.ran = kept * watch.recent.ran + std::max(times->ran - watch.seen.ran, 0.0);
      watch.recent.waited = kept * watch.recent.waited + std::max(times->waited - watch.seen.waited, 0.0);
    }
    watch.last = now;
    watch.seen = times.value_or(Times{});
  }
  const double both = watch.recent.ran + watch.recent.waited;
  return both > 0 ? watch.recent.waited / both : 0;
}

}  // namespace kolo
