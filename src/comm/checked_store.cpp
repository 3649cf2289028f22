// Each call runs on a thread of its own, because a call that does not return cannot be ended: its thread is
// left to the store.
#include "comm/checked_store.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "base/deadline.hpp"
#include "rendezvous/own_store.hpp"
#include "rendezvous/table.hpp"

namespace kolo::comm {
namespace {

constexpr std::chrono::seconds kMore{2};         // than the timeout of a call
constexpr std::chrono::seconds kAnswerTime{10};  // of calls without one
constexpr std::chrono::hours kLongest{24 * 365};

class CheckedStore final : public Store {
 public:
  CheckedStore(std::shared_ptr<Store> store, std::chrono::nanoseconds patience, std::chrono::nanoseconds more)
      : store_(std::move(store)),
        patience_(std::min<std::chrono::nanoseconds>(patience, kAnswerTime)),
        more_(more) {
    name_ = run("describe()", patience_, [](Store& own) { return own.describe(); });
  }

  void set(const std::string& key, const std::string& value) override {
    run(text("set", key), patience_, [=](Store& own) { own.set(key, value); });
  }
  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    return run(text("get", key), timeout, [=](Store& own) { return own.get(key, timeout); });
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return run(text("add", key), patience_, [=](Store& own) { return own.add(key, amount); });
  }
  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    if (keys.empty()) return {};
    auto missing =
        run(text("wait", keys.front()), timeout, [=](Store& own) { return own.wait(keys, timeout); });
    for (const std::string& key : missing) {
      if (std::ranges::find(keys, key) == keys.end())
        fail(text("wait", keys.front()), "it returns " + rendezvous::quoted(key));
    }
    return missing;
  }
  void remove(const std::string& key) override {
    run(text("remove", key), patience_, [=](Store& own) { own.remove(key); });
  }
  std::string describe() const override { return name_; }

 private:
  static std::string text(const char* method, const std::string& key) {
    return fmt::format("{}({})", method, rendezvous::quoted(key));
  }

  [[noreturn]] void fail(const std::string& call, const std::string& why) const {
    throw RendezvousError(fmt::format("the store {} fails in {}: {}", name_, call, why), {});
  }

  template <typename Call>
  std::invoke_result_t<Call, Store&> run(const std::string& what, std::chrono::nanoseconds timeout,
                                         Call call) {
    if (is_stuck_) fail(what, "an earlier call has not returned");
    using Value = std::invoke_result_t<Call, Store&>;
    auto task = std::make_shared<std::packaged_task<Value()>>(
        [store = store_, call = std::move(call)] { return call(*store); });
    std::future<Value> result = task->get_future();
    std::thread([task = std::move(task)] { (*task)(); }).detach();
    const auto most = std::clamp<std::chrono::nanoseconds>(timeout, {}, kLongest) + more_;
    if (result.wait_for(most) != std::future_status::ready) {
      is_stuck_ = true;
      fail(what, fmt::format("it has not returned for {:.3g} s", to_seconds(most)));
    }
    try {
      return result.get();
    } catch (const std::exception& error) {
      fail(what, error.what());
    } catch (...) {
      fail(what, "it throws no std::exception");
    }
  }

  const std::shared_ptr<Store> store_;
  const std::chrono::nanoseconds patience_;
  const std::chrono::nanoseconds more_;
  std::string name_ = "of the caller's own";
  std::atomic<bool> is_stuck_ = false;
};

}  // namespace

std::shared_ptr<Store> make_checked_store(std::shared_ptr<Store> store, std::chrono::nanoseconds patience) {
  if (rendezvous::is_own(*store)) return store;
  return std::make_shared<CheckedStore>(std::move(store), patience, kMore);
}

std::shared_ptr<Store> make_impatient_store(std::shared_ptr<Store> store, std::chrono::nanoseconds patience) {
  return std::make_shared<CheckedStore>(std::move(store), std::chrono::nanoseconds(0), patience);
}

}  // namespace kolo::comm
