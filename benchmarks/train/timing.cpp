#include "train/timing.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <numeric>
#include <thread>

namespace kolo::bench {
namespace {

constexpr auto kPolled = std::chrono::microseconds(80);

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

}  // namespace

double in_seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double seconds_since(Clock::time_point begin) {
  return in_seconds(Clock::now() - begin);
}

Clock::duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void sleep_until(Clock::time_point time) {
  std::this_thread::sleep_until(time - kPolled);
  while (Clock::now() < time) {
  }
}

void sleep_for(double seconds) {
  sleep_until(Clock::now() + from_seconds(seconds));
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double largest_of_all(Communicator& communicator, double value) {
  communicator.all_reduce(Buffer(&value, 1, DType::float64), ReduceOp::max);
  return value;
}

void StepTimes::append(const StepTimes& other) {
  step.insert(step.end(), other.step.begin(), other.step.end());
  exposed.insert(exposed.end(), other.exposed.begin(), other.exposed.end());
  processor.insert(processor.end(), other.processor.begin(), other.processor.end());
}

StepSummary summary_of(StepTimes times, Communicator& communicator) {
  communicator.all_reduce(Buffer(times.step), ReduceOp::max);
  communicator.all_reduce(Buffer(times.exposed), ReduceOp::max);
  communicator.all_reduce(Buffer(times.processor), ReduceOp::average);
  return {median(times.step), mean(times.step), median(times.exposed),
          median(times.processor) * communicator.size() / std::thread::hardware_concurrency()};
}

void StepClock::begin() {
  processor_ = processor_seconds();
  begin_ = Clock::now();
}

void StepClock::end(Clock::duration exposed) {
  const auto now = Clock::now();
  const double used = processor_seconds();
  if (left_out_-- <= 0) {
    times_.step.push_back(in_seconds(now - begin_));
    times_.exposed.push_back(in_seconds(exposed));
    times_.processor.push_back(used - processor_);
  }
  begin_ = now;
  processor_ = used;
}

}  // namespace kolo::bench
