#include "base/core_loss.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/unique_fd.hpp"

namespace kolo {
namespace {

// The system counts a running thread's time in ticks of up to 10 ms.
constexpr auto kWindow = std::chrono::milliseconds(64);

std::optional<CoreLoss::Times> times_of_this_thread() {
  const UniqueFd file(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  if (!file.valid() || ::read(file.get(), text.data(), text.size() - 1) <= 0) return std::nullopt;
  CoreLoss::Times times;
  if (std::sscanf(text.data(), "%lf %lf", &times.ran, &times.waited) != 2) return std::nullopt;
  return times;
}

}  // namespace

bool CoreLoss::is_due(Clock::time_point now) const {
  return now - last_ >= kWindow;
}

void CoreLoss::note(Clock::time_point now, const std::optional<Times>& times) {
  if (times && last_ != Clock::time_point{}) {
    const double windows = std::floor((now - last_) / std::chrono::duration<double>(kWindow));
    const double kept = std::exp2(-windows);
    recent_.ran = kept * recent_.ran + std::max(times->ran - seen_.ran, 0.0);
    recent_.waited = kept * recent_.waited + std::max(times->waited - seen_.waited, 0.0);
  }
  last_ = now;
  seen_ = times.value_or(Times{});
}

double CoreLoss::share() const {
  const double both = recent_.ran + recent_.waited;
  return both > 0 ? recent_.waited / both : 0;
}

double core_loss(Clock::time_point now) {
  thread_local CoreLoss loss;
  if (loss.is_due(now)) loss.note(now, times_of_this_thread());
  return loss.share();
}

}  // namespace kolo
