// The store for ranks that are threads of one process: a table, a mutex, a condition.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/deadline.hpp"
#include "kolo/store.hpp"
#include "rendezvous/own_store.hpp"
#include "rendezvous/table.hpp"

namespace kolo {
namespace {

class MemoryStore final : public Store, public rendezvous::OwnStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    rendezvous::check_key(key).throw_if_error();
    rendezvous::check_value(value).throw_if_error();
    {
      const std::lock_guard lock(mutex_);
      table_.set(key, value);
    }
    changed_.notify_all();
  }

  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    rendezvous::check_key(key).throw_if_error();
    std::unique_lock lock(mutex_);
    if (!until({key}, timeout, lock).empty())
      rendezvous::missing_key(key, describe(), timeout).throw_if_error();
    return *table_.find(key);
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    rendezvous::check_key(key).throw_if_error();
    Result<std::int64_t> sum = [&] {
      const std::lock_guard lock(mutex_);
      return table_.add(key, amount);
    }();
    changed_.notify_all();
    return std::move(sum).value_or_throw();
  }

  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    for (const std::string& key : keys) rendezvous::check_key(key).throw_if_error();
    std::unique_lock lock(mutex_);
    return until(keys, timeout, lock);
  }

  void remove(const std::string& key) override {
    rendezvous::check_key(key).throw_if_error();
    const std::lock_guard lock(mutex_);
    table_.remove(key);
  }

  std::string describe() const override { return "memory"; }

 private:
  /// Waits for `keys`; returns those still missing, with the lock held.
  std::vector<std::string> until(const std::vector<std::string>& keys, std::chrono::nanoseconds timeout,
                                 std::unique_lock<std::mutex>& lock) {
    const Deadline deadline = Deadline::after(timeout);
    std::vector<std::string> absent = table_.missing(keys);
    while (!absent.empty() && !deadline.passed()) {
      changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::hours(1)));
      absent = table_.missing(keys);
    }
    return absent;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  rendezvous::Table table_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() {
  return std::make_shared<MemoryStore>();
}

}  // namespace kolo
