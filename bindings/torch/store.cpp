#include "store.hpp"

#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <sstream>
#include <thread>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace kolo::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kShortestPause{100};
constexpr std::chrono::microseconds kLongestPause{20'000};

std::string full(const std::string& key) {
  return "kolo/" + key;
}

}  // namespace

/// What a store of PyTorch's throws is a RendezvousError for kolo.
template <typename Function>
void StoreView::guarded(const Function& function) const {
  if (is_cancelled_) throw RendezvousError(describe() + ": a signal has ended the meeting", {});
  try {
    function();
  } catch (const c10::Error& error) {
    throw RendezvousError(describe() + ": " + error.what_without_backtrace(), {});
  } catch (const std::exception& error) {
    throw RendezvousError(describe() + ": " + error.what(), {});
  }
}

void StoreView::set(const std::string& key, const std::string& value) {
  guarded([&] { store_->set(full(key), std::vector<std::uint8_t>(value.begin(), value.end())); });
}

std::string StoreView::get(const std::string& key, std::chrono::nanoseconds timeout) {
  if (!wait({key}, timeout).empty()) {
    const auto seconds = std::chrono::duration<double>(timeout).count();
    throw TimeoutError(
        describe() + " has no key " + key + ": timed out after " + std::to_string(seconds) + " s", {});
  }
  std::vector<std::uint8_t> value;
  guarded([&] { value = store_->get(full(key)); });
  return {value.begin(), value.end()};
}

std::int64_t StoreView::add(const std::string& key, std::int64_t amount) {
  std::int64_t sum = 0;
  guarded([&] { sum = store_->add(full(key), amount); });
  return sum;
}

std::vector<std::string> StoreView::wait(const std::vector<std::string>& keys,
                                         std::chrono::nanoseconds timeout) {
  const auto begin = Clock::now();
  while (!has(keys)) {
    const auto waited = Clock::now() - begin;
    if (waited < timeout) {
      std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 8, kShortestPause, kLongestPause));
      continue;
    }
    std::vector<std::string> missing;
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(missing),
                 [&](const std::string& key) { return !has({key}); });
    return missing;
  }
  return {};
}

void StoreView::remove(const std::string& key) {
  guarded([&] { store_->deleteKey(full(key)); });
}

std::string StoreView::describe() const {
  const auto* tcp = tcp_store();
  if (tcp == nullptr) return "PyTorch's store";
  return "PyTorch's store at " + tcp->getHost() + ":" + std::to_string(tcp->getPort());
}

std::string StoreView::host() const {
  const auto* tcp = tcp_store();
  return tcp == nullptr ? std::string() : tcp->getHost();
}

/// Null if it is another kind of store.
const c10d::TCPStore* StoreView::tcp_store() const {
  c10d::Store* inner = store_.get();
  while (auto* view = dynamic_cast<c10d::PrefixStore*>(inner)) inner = view->getUnderlyingStore().get();
  return dynamic_cast<const c10d::TCPStore*>(inner);
}

bool StoreView::has(const std::vector<std::string>& keys) const {
  std::vector<std::string> all;
  for (const std::string& key : keys) all.push_back(full(key));
  bool has_all = false;
  guarded([&] { has_all = store_->check(all); });
  return has_all;
}

std::string key_from(StoreView& store, int rank, int size, std::chrono::nanoseconds timeout) {
  store.add("comers", 1);  // makes the file of a store in one
  if (rank == 0 && !store.wait({"key"}, {}).empty()) {
    std::random_device source;
    std::ostringstream text;
    for (int i = 0; i < 8; ++i) text << std::hex << source();
    store.set("key", text.str());
  }
  if (store.wait({"key"}, timeout).empty()) return store.get("key", timeout);
  std::ostringstream text;
  text << "rank 0 of " << size << " did not come: timed out after "
       << std::chrono::duration<double>(timeout).count() << " s (meeting at " << store.describe() << ")";
  throw RendezvousError(text.str(), {});
}

std::string misleading_name(const std::string& network) {
  char name[256] = "", address[256] = "";
  addrinfo* found = nullptr;
  if (::gethostname(name, sizeof name - 1) != 0 || ::getaddrinfo(name, nullptr, nullptr, &found) != 0)
    return std::string("this host's name, ") + name + ", leads nowhere";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, address, sizeof address, nullptr, 0, NI_NUMERICHOST) !=
        0)
      continue;
    if (network.find(address) != std::string::npos) return {};
  }
  return std::string("this host's name, ") + name + ", leads to " + address;
}

}  // namespace kolo::pytorch
