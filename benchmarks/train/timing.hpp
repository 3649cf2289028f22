// Clocks, sleeps and statistics of timed steps.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo::bench {

using Clock = std::chrono::steady_clock;

double in_seconds(Clock::duration duration);
double seconds_since(Clock::time_point begin);
Clock::duration from_seconds(double seconds);
/// Sleeps, and polls the clock for the last fraction of a millisecond.
void sleep_until(Clock::time_point time);
void sleep_for(double seconds);

/// 0 of no values.
double median(std::vector<double> values);
double mean(const std::vector<double>& values);
/// Collective: the largest value of all ranks.
double largest_of_all(Communicator& communicator, double value);

/// Seconds, a value for each step.
struct StepTimes {
  std::vector<double> step;
  std::vector<double> exposed;    ///< time that the rank waited for communication
  std::vector<double> processor;  ///< processor time of this process

  void append(const StepTimes& other);
};

/// Seconds a step: medians, but for the mean.
struct StepSummary {
  double step = 0, step_mean = 0;  ///< of the slowest rank
  double exposed = 0;              ///< of the slowest rank
  double processor = 0;            ///< processor time of all ranks, divided by the cores of this machine
};

/// Collective. Ranks of an emulated cluster share this machine's cores, whatever their hosts.
StepSummary summary_of(StepTimes times, Communicator& communicator);

/// Times steps that follow one another; the first `left_out` do not count.
class StepClock {
 public:
  explicit StepClock(int left_out) : left_out_(left_out) {}
  /// A step begins. Without this call it begins where the last one ended.
  void begin();
  void end(Clock::duration exposed);
  StepTimes take() { return std::move(times_); }

 private:
  int left_out_;
  Clock::time_point begin_;
  double processor_ = 0;
  StepTimes times_;
};

}  // namespace kolo::bench
