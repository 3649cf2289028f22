// StoreView: a store of PyTorch's as one of kolo's.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "kolo/store.hpp"

namespace kolo::pytorch {

/// The keys that begin with "kolo/". A wait asks again and again whether keys exist: a wait of PyTorch's that
/// ends without them leaves the connection of a TCPStore out of step.
class StoreView final : public Store {
 public:
  explicit StoreView(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override;
  void remove(const std::string& key) override;
  std::string describe() const override;
  std::string host() const override;
  /// Makes calls throw, those of other threads too.
  void cancel() { is_cancelled_ = true; }

 private:
  bool has(const std::vector<std::string>& keys) const;
  const c10d::TCPStore* tcp_store() const;
  template <typename Function>
  void guarded(const Function& function) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<bool> is_cancelled_{false};
};

/// The job's key: rank 0 of `size` puts one into the store if there is none, and all ranks read it.
std::string key_from(StoreView& store, int rank, int size, std::chrono::nanoseconds timeout);

/// Where this host's name leads, in words, if it is none of the addresses in `network`; else empty. Gloo goes
/// by that name.
std::string misleading_name(const std::string& network);

}  // namespace kolo::pytorch
