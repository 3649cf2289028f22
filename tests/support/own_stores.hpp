// Stores as a user of kolo writes them: in a map for threads, in a folder for processes.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "kolo/store.hpp"

namespace kolo::test {

/// For ranks that are threads.
class MapStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    if (!MapStore::wait({key}, timeout).empty()) throw std::runtime_error("no " + key);
    const std::lock_guard lock(mutex_);
    return values_.at(key);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const std::lock_guard lock(mutex_);
    std::string& value = values_[key];
    const std::int64_t sum = (value.empty() ? 0 : std::stoll(value)) + amount;
    value = std::to_string(sum);
    changed_.notify_all();
    return sum;
  }
  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    std::unique_lock lock(mutex_);
    std::vector<std::string> missing;
    changed_.wait_for(lock, timeout, [&] {
      missing = keys;
      std::erase_if(missing, [&](const std::string& key) { return values_.contains(key); });
      return missing.empty();
    });
    return missing;
  }
  void remove(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    values_.erase(key);
  }
  std::string describe() const override { return "a map"; }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// For ranks that are processes: each key is a file.
class FolderStore final : public Store {
 public:
  explicit FolderStore(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }

  void set(const std::string& key, const std::string& value) override {
    const Lock lock(folder_);
    write(key, value);
  }
  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    if (!wait({key}, timeout).empty()) throw std::runtime_error("no " + key);
    return read(key);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const Lock lock(folder_);
    const std::int64_t sum = (has(key) ? std::stoll(read(key)) : 0) + amount;
    write(key, std::to_string(sum));
    return sum;
  }
  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (true) {
      std::vector<std::string> missing = keys;
      std::erase_if(missing, [&](const std::string& key) { return has(key); });
      if (missing.empty() || std::chrono::steady_clock::now() >= end) return missing;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void remove(const std::string& key) override { std::filesystem::remove(path_of(key)); }
  std::string describe() const override { return "the folder " + folder_.string(); }

 private:
  struct Lock {
    explicit Lock(const std::filesystem::path& folder)
        : fd(::open((folder / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
      ::flock(fd, LOCK_EX);
    }
    ~Lock() { ::close(fd); }
    const int fd;
  };

  std::filesystem::path path_of(std::string key) const {
    for (char& c : key) c = c == '/' ? '%' : c;
    return folder_ / key;
  }
  bool has(const std::string& key) const { return std::filesystem::exists(path_of(key)); }
  std::string read(const std::string& key) const {
    std::ostringstream text;
    text << std::ifstream(path_of(key)).rdbuf();
    return text.str();
  }
  void write(const std::string& key, const std::string& value) const {
    const auto part = folder_ / ".part";
    std::ofstream(part) << value;
    std::filesystem::rename(part, path_of(key));
  }

  const std::filesystem::path folder_;
};

}  // namespace kolo::test
