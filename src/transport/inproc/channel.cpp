#include "transport/inproc/channel.hpp"

#include <sys/eventfd.h>

#include <condition_variable>
#include <map>
#include <stop_token>

#include "base/service_thread.hpp"

namespace kolo::transport::inproc {

Doorbell::Doorbell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Doorbell::ring() {
  // Fails only if the counter is full: then the descriptor polls readable anyway.
  [[maybe_unused]] const int ignored = ::eventfd_write(fd_.get(), 1);
}

void Doorbell::silence() {
  eventfd_t count = 0;
  [[maybe_unused]] const int ignored = ::eventfd_read(fd_.get(), &count);
}

void DelayLine::hold(std::uint64_t begin, Clock::time_point due) {
  const std::lock_guard lock(mutex_);
  held_.push_back({begin, due});
}

std::uint64_t DelayLine::readable(std::uint64_t end, Clock::time_point& next) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  while (!held_.empty() && held_.front().due <= now) held_.pop_front();
  if (held_.empty()) return end;
  next = held_.front().due;
  return std::min(end, held_.front().begin);
}

void DelayLine::clear() {
  const std::lock_guard lock(mutex_);
  held_.clear();
}

void Channel::ring_both() {
  for (Doorbell& doorbell : doorbells_) doorbell.ring();
}

void Channel::set_delay(std::chrono::nanoseconds delay) {
  delay_.store(delay.count());
  if (delay.count() == 0) {
    for (Direction& direction : directions_) direction.delay_line.clear();
  }
  ring_both();
}

void Channel::set_stalled(int side, bool stalled) {
  stalled_[side].store(stalled);
  ring_both();
}

void Channel::end() {
  ended_.store(true, std::memory_order_release);
  ring_both();
}

namespace {

/// One thread that rings doorbells on time. Starts with the first delayed byte.
class AlarmClock {
 public:
  AlarmClock() : thread_([this] { run(stop_.get_token()); }) {}
  ~AlarmClock() {
    if (!thread_.is_here()) return;
    stop_.request_stop();
    thread_.join();
  }

  void add(Clock::time_point when, const std::shared_ptr<Channel>& channel, int side) {
    const std::lock_guard lock(mutex_);
    alarms_.emplace(when, Alarm{channel, side});
    changed_.notify_one();
  }

 private:
  struct Alarm {
    std::weak_ptr<Channel> channel;
    int side;
  };

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      if (alarms_.empty()) {
        changed_.wait(lock, stop, [this] { return !alarms_.empty(); });
        continue;
      }
      const auto first = alarms_.begin();
      if (first->first > Clock::now()) {
        const auto when = first->first;
        changed_.wait_until(lock, stop, when, [&] { return alarms_.begin()->first < when; });
        continue;
      }
      const Alarm alarm = first->second;
      alarms_.erase(first);
      lock.unlock();
      if (const auto channel = alarm.channel.lock()) channel->doorbell(alarm.side).ring();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::multimap<Clock::time_point, Alarm> alarms_;
  std::stop_source stop_;
  ServiceThread thread_;  // last: it uses the rest
};

}  // namespace

void ring_later(const std::shared_ptr<Channel>& channel, int side, Clock::time_point when) {
  static AlarmClock clock;
  clock.add(when, channel, side);
}

}  // namespace kolo::transport::inproc
