// RingQueue: a queue that allocates only to grow.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace kolo {

/// A double-ended queue in one ring of memory. `std::deque` allocates a node for every few elements that pass
/// through it; this one keeps the memory of its largest size. `T` has a default constructor and moves without
/// exceptions. What was popped or erased is reset to `T()`. Growing and erasing invalidate iterators.
template <typename T>
class RingQueue {
  template <typename Queue, typename Value>
  class Iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = Value*;
    using reference = Value&;

    Iterator() = default;
    Iterator(Queue* queue, difference_type at) : queue_(queue), at_(at) {}
    reference operator*() const { return (*queue_)[static_cast<std::size_t>(at_)]; }
    pointer operator->() const { return &**this; }
    reference operator[](difference_type n) const { return *(*this + n); }
    Iterator& operator+=(difference_type n) { return at_ += n, *this; }
    Iterator& operator-=(difference_type n) { return at_ -= n, *this; }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this -= 1; }
    Iterator operator++(int) { return std::exchange(*this, *this + 1); }
    Iterator operator--(int) { return std::exchange(*this, *this - 1); }
    friend Iterator operator+(Iterator it, difference_type n) { return it += n; }
    friend Iterator operator+(difference_type n, Iterator it) { return it += n; }
    friend Iterator operator-(Iterator it, difference_type n) { return it -= n; }
    friend difference_type operator-(const Iterator& a, const Iterator& b) { return a.at_ - b.at_; }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }
    auto operator<=>(const Iterator& other) const { return at_ <=> other.at_; }

   private:
    Queue* queue_ = nullptr;
    difference_type at_ = 0;
  };

 public:
  using iterator = Iterator<RingQueue, T>;
  using const_iterator = Iterator<const RingQueue, const T>;

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  T& operator[](std::size_t at) { return ring_[place(at)]; }
  const T& operator[](std::size_t at) const { return ring_[place(at)]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }
  const T& back() const { return (*this)[size_ - 1]; }
  iterator begin() { return {this, 0}; }
  iterator end() { return {this, static_cast<std::ptrdiff_t>(size_)}; }
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, static_cast<std::ptrdiff_t>(size_)}; }

  void push_back(T value) {
    if (size_ == ring_.size()) grow();
    ring_[place(size_++)] = std::move(value);
  }
  void push_front(T value) {
    if (size_ == ring_.size()) grow();
    first_ = place(ring_.size() - 1);
    ++size_;
    front() = std::move(value);
  }
  void pop_front() {
    front() = T();
    first_ = place(1);
    --size_;
  }
  /// Moves the elements on the shorter side of `at`.
  void erase(std::size_t at) {
    if (at < size_ / 2) {
      for (; at > 0; --at) (*this)[at] = std::move((*this)[at - 1]);
      return pop_front();
    }
    for (; at + 1 < size_; ++at) (*this)[at] = std::move((*this)[at + 1]);
    back() = T();
    --size_;
  }
  void clear() {
    while (!empty()) pop_front();
  }

 private:
  /// The ring's size is a power of two.
  std::size_t place(std::size_t at) const noexcept { return (first_ + at) & (ring_.size() - 1); }

  void grow() {
    std::vector<T> larger(ring_.empty() ? 8 : 2 * ring_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> ring_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace kolo
