// A view of another store in which every key is prefixed.
#include "kolo/store.hpp"
#include "rendezvous/own_store.hpp"

namespace kolo {
namespace {

class PrefixStore final : public Store, public rendezvous::OwnStore {
 public:
  /// The prefix is preceded by its length, so that ("a", "b/c") and ("a/b", "c") are different keys.
  PrefixStore(const std::string& prefix, std::shared_ptr<Store> store)
      : prefix_(std::to_string(prefix.size()) + ":" + prefix + "/"), store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override { store_->set(prefix_ + key, value); }
  std::string get(const std::string& key, std::chrono::nanoseconds timeout) override {
    return store_->get(prefix_ + key, timeout);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return store_->add(prefix_ + key, amount);
  }
  std::vector<std::string> wait(const std::vector<std::string>& keys,
                                std::chrono::nanoseconds timeout) override {
    std::vector<std::string> full;
    full.reserve(keys.size());
    for (const std::string& key : keys) full.push_back(prefix_ + key);
    std::vector<std::string> absent = store_->wait(full, timeout);
    for (std::string& key : absent) key.erase(0, prefix_.size());
    return absent;
  }
  void remove(const std::string& key) override { store_->remove(prefix_ + key); }
  std::string describe() const override { return store_->describe(); }
  std::string host() const override { return store_->host(); }
  bool is_own() const override { return rendezvous::is_own(*store_); }

 private:
  const std::string prefix_;
  const std::shared_ptr<Store> store_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(const std::string& prefix, std::shared_ptr<Store> store) {
  if (!store) throw InvalidArgumentError("make_prefix_store: the store is null", {});
  return std::make_shared<PrefixStore>(prefix, std::move(store));
}

}  // namespace kolo
