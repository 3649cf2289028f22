// Contestant: the interface of a library (backend) to the measuring loop. kolo and each peer implement it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/case.hpp"

namespace kolo::bench {

/// The memory of one tensor: `in` and `out` hold in_count() and out_count() elements; in place they overlap.
struct Piece {
  void* in;
  void* out;
};

/// All functions except memory() and algorithms() are collective. Errors are exceptions. One thread.
class Contestant {
 public:
  Contestant(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Contestant() = default;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// Names of the library's algorithms to measure; empty if it cannot run the case.
  virtual std::vector<std::string> algorithms(const Case& what) const = 0;
  /// False if the case has no result to verify.
  virtual bool computes() const { return true; }
  /// At least `bytes` of page-aligned memory of the kind under test, or of the host in place of a device's;
  /// valid until the next call of memory().
  virtual std::byte* memory(std::size_t bytes) = 0;
  /// Called after inputs have been written there.
  virtual void after_writing() {}
  /// Called before results are read there.
  virtual void before_reading() {}

  /// One-time preparation before many calls, for `what.tensors` pieces of each of `what.steps` steps.
  virtual void prepare(const Case& what, const std::string& algorithm, std::span<const Piece> pieces) = 0;
  /// The timed call on the pieces [begin, end): the blocking collective of one piece, or the collectives of
  /// several pieces, started one after another and then waited for if the library can do so.
  virtual void call(std::size_t begin, std::size_t end) = 0;
  virtual void barrier() = 0;

  /// Broadcasts rank 0's bytes.
  virtual void share(void* data, std::size_t bytes) = 0;
  /// Gathers `count` numbers of every rank into rank 0's `all`, in rank order.
  virtual void collect(const double* mine, std::size_t count, double* all) = 0;

 private:
  int rank_;
  int size_;
};

}  // namespace kolo::bench
