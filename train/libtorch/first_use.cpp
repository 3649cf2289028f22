#include "libtorch/first_use.hpp"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

namespace kolo::train {

namespace {

using StoragePtr = const c10::StorageImpl*;
using Listener = std::shared_ptr<const FirstUse::OnUse>;

StoragePtr storage_of(const c10::TensorImpl& tensor) {
  return tensor.has_storage() ? tensor.unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

/// All storages that some object of the process watches.
class WatchedStorages {
 public:
  static WatchedStorages& instance() {
    static auto* const storages = new WatchedStorages;  // operations run until the process has ended
    return *storages;
  }

  void add(const Listener& listener, const std::vector<std::pair<at::Tensor, std::size_t>>& tensors) {
    const std::unique_lock lock(mutex_);
    for (const auto& [tensor, index] : tensors) {
      const StoragePtr storage = storage_of(*tensor.unsafeGetTensorImpl());
      const auto [begin, end] = entries_.equal_range(storage);
      const bool is_known = std::any_of(begin, end, [&, index = index](const auto& item) {
        return item.second.listener == listener && item.second.index == index;
      });
      if (storage != nullptr && !is_known)
        entries_.emplace(storage, Entry{listener, index, tensor.storage()});
    }
    adjust();
  }

  template <typename Predicate>
  void remove(const Predicate& goes) {
    const std::unique_lock lock(mutex_);
    std::erase_if(entries_, [&](const auto& item) { return goes(item.second.listener, item.second.index); });
    adjust();
  }

  void use(const c10::TensorImpl& tensor) {
    std::vector<Entry> hits;
    find(tensor, hits);
    report(hits, FirstUse::Access::pointer);
  }

 private:
  struct Entry {
    Listener listener;
    std::size_t index;
    c10::Storage storage;  ///< keeps its address from being given to another one
  };

  void find(const c10::TensorImpl& tensor, std::vector<Entry>& hits) {
    if (!is_active_.load(std::memory_order_relaxed)) return;
    const StoragePtr storage = storage_of(tensor);
    if (storage == nullptr) return;
    const std::shared_lock lock(mutex_);
    const auto [begin, end] = entries_.equal_range(storage);
    for (auto entry = begin; entry != end; ++entry) hits.push_back(entry->second);
  }

  template <typename Values>
  void find_all(const Values& inputs, std::vector<Entry>& hits) {
    for (const c10::IValue& input : inputs) {
      if (input.isTensor()) {
        find(*input.unsafeToTensorImpl(), hits);
      } else if (input.isList()) {
        find_all(input.toListRef(), hits);
      }
    }
  }

  /// Each listener is called once, with all that it watches.
  static void report(const std::vector<Entry>& hits, FirstUse::Access access) {
    if (hits.empty()) return;
    const at::DisableRecordFunctionGuard unobserved;
    std::vector<Listener> called;
    for (const Entry& hit : hits) {
      if (std::ranges::find(called, hit.listener) != called.end()) continue;
      called.push_back(hit.listener);
      std::vector<std::size_t> indices;
      for (const Entry& other : hits) {
        if (other.listener == hit.listener) indices.push_back(other.index);
      }
      (*hit.listener)(indices, access);
    }
  }

  static std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& operation) {
    std::vector<Entry> hits;
    instance().find_all(operation.inputs(), hits);
    const bool writes = std::string_view(operation.name()).ends_with('_');
    report(hits, writes ? FirstUse::Access::write : FirstUse::Access::read);
    return nullptr;
  }

  /// Every operation costs more with the callback: it is there only while it can find something.
  void adjust() {
    const bool is_needed = !entries_.empty();
    if (is_needed == is_active_.load(std::memory_order_relaxed)) return;
    is_active_.store(is_needed, std::memory_order_relaxed);
    if (!is_needed) {
      at::disableCallback(callback_);
    } else if (callback_ != at::INVALID_CALLBACK_HANDLE) {
      at::reenableCallback(callback_);
    } else {
      callback_ = at::addGlobalCallback(
          at::RecordFunctionCallback(&before).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
    }
  }

  std::shared_mutex mutex_;
  std::atomic<bool> is_active_ = false;
  std::unordered_multimap<StoragePtr, Entry> entries_;
  at::CallbackHandle callback_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace

FirstUse::FirstUse(OnUse on_use) : listener_(std::make_shared<const OnUse>(std::move(on_use))) {}

FirstUse::~FirstUse() {
  forget_all();
}

void FirstUse::watch(const std::vector<std::pair<at::Tensor, std::size_t>>& tensors) {
  WatchedStorages::instance().add(listener_, tensors);
}

void FirstUse::forget(std::size_t index) {
  WatchedStorages::instance().remove(
      [&](const auto& listener, std::size_t other) { return listener == listener_ && other == index; });
}

void FirstUse::forget_all() {
  WatchedStorages::instance().remove(
      [&](const auto& listener, std::size_t) { return listener == listener_; });
}

void FirstUse::touch(const at::Tensor& tensor) {
  WatchedStorages::instance().use(*tensor.unsafeGetTensorImpl());
}

}  // namespace kolo::train
