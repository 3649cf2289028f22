#include "engine/callbacks.hpp"

#include <utility>

#include "base/service_thread.hpp"
#include "engine/operation.hpp"

namespace kolo::engine {
namespace {

thread_local bool is_callback_thread = false;

}  // namespace

std::shared_ptr<Callbacks> Callbacks::start(std::function<void()> drive, Entries ready) {
  auto made = std::make_shared<Callbacks>();
  made->is_closed_ = drive == nullptr;
  made->drive_ = std::move(drive);
  made->ready_ = std::move(ready);
  // A callback that drops the last Communicator goes on when the engine is gone: the thread owns this object.
  ServiceThread([made] { made->run(); }).detach();
  return made;
}

void Callbacks::run() {
  is_callback_thread = true;
  std::unique_lock lock(mutex_);
  while (true) {
    if (!ready_.empty()) {
      Entries first;
      first.splice(first.end(), ready_, ready_.begin());
      lock.unlock();
      first.front().callback(std::move(first.front().operation));
      first.clear();
      lock.lock();
    } else if (is_closed_) {
      break;
    } else if (std::exchange(is_fresh_, false)) {
      has_news_.store(false, std::memory_order_relaxed);
      is_driving_ = true;
      lock.unlock();
      drive_();
      lock.lock();
      is_driving_ = false;
      changed_.notify_all();
    } else {
      changed_.wait(lock);
    }
  }
  has_ended_ = true;
  changed_.notify_all();
}

void Callbacks::expect() {
  {
    const std::lock_guard lock(mutex_);
    is_fresh_ = true;
  }
  changed_.notify_all();
}

void Callbacks::add(Entries&& ready) noexcept {
  const std::lock_guard lock(mutex_);
  ready_.splice(ready_.end(), ready);
  has_news_.store(true, std::memory_order_relaxed);
  changed_.notify_all();
}

void Callbacks::stop_driving() {
  std::unique_lock lock(mutex_);
  is_closed_ = true;
  has_news_.store(true, std::memory_order_relaxed);
  changed_.notify_all();
  changed_.wait(lock, [this] { return !is_driving_; });
}

void Callbacks::finish() {
  if (is_callback_thread) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_ended_; });
}

}  // namespace kolo::engine
