// ActiveOperations: the operations in flight, in the order of their starts. Adds and takes any of them in the
// same short time, however many there are, and allocates nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "engine/operation.hpp"

namespace kolo::engine {

/// A list whose links are in the operations.
class ActiveOperations {
 public:
  class Iterator {
   public:
    explicit Iterator(Operation* at) : at_(at) {}
    Operation& operator*() const { return *at_; }
    Iterator& operator++() {
      at_ = at_->newer_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    Operation* at_;
  };

  ActiveOperations() = default;
  ActiveOperations(const ActiveOperations&) = delete;
  ~ActiveOperations() {
    while (!empty()) take(oldest());
  }

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  Operation& oldest() const noexcept { return *oldest_; }
  Operation& newest() const noexcept { return *newest_; }
  Iterator begin() const noexcept { return Iterator(oldest_); }
  Iterator end() const noexcept { return Iterator(nullptr); }

  void add(std::shared_ptr<Operation> operation) {
    Operation& added = *operation;
    added.older_ = newest_;
    added.newer_ = nullptr;
    (newest_ == nullptr ? oldest_ : newest_->newer_) = &added;
    newest_ = &added;
    added.active_ = std::move(operation);
    ++size_;
  }
  /// Null if the operation is not in flight.
  std::shared_ptr<Operation> take(Operation& operation) {
    if (operation.active_ == nullptr) return nullptr;
    (operation.older_ == nullptr ? oldest_ : operation.older_->newer_) = operation.newer_;
    (operation.newer_ == nullptr ? newest_ : operation.newer_->older_) = operation.older_;
    --size_;
    return std::exchange(operation.active_, nullptr);
  }

 private:
  Operation* oldest_ = nullptr;
  Operation* newest_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kolo::engine
