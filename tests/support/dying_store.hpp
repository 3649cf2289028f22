// DyingStore: a store in which its process dies.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kolo/store.hpp"

namespace kolo::test {

/// Dies at a call, perhaps after it.
class DyingStore final : public Store {
 public:
  DyingStore(std::shared_ptr<Store> store, int at) : store_(std::move(store)), left_(at) {}

  void set(const std::string& key, const std::string& value) override {
    store_->set(key, value);
    count();
  }
  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    count();
    return store_->get(key, timeout);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const std::int64_t sum = store_->add(key, amount);
    count();
    return sum;
  }
  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    auto missing = store_->wait(keys, timeout);
    count();
    return missing;
  }
  void remove(const std::string& key) override { store_->remove(key); }
  std::string describe() const override { return store_->describe(); }

 private:
  void count() {
    if (--left_ == 0) ::raise(SIGKILL);
  }

  const std::shared_ptr<Store> store_;
  std::atomic<int> left_;
};

}  // namespace kolo::test
