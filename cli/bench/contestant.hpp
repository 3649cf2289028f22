// Contestant: a library under test, as the measuring loop sees it. kolo is one, each peer is one.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// All calls but memory() and algorithms() are collective. Errors are exceptions. One thread.
class Contestant {
 public:
  virtual ~Contestant() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The library's algorithms that are worth a try, by name; empty when it cannot do the case at all.
  virtual std::vector<std::string> algorithms(const Case& what) const = 0;
  /// False where bytes only move and nothing is computed: the result is not looked at.
  virtual bool computes() const { return true; }
  /// At least `bytes` of page-aligned memory of the kind under test; valid until the next call.
  virtual std::byte* memory(std::size_t bytes) = 0;

  /// Everything that a program does once before many calls, for `what.tensors` pieces.
  virtual void prepare(const Case& what, const std::string& algorithm, std::span<const Piece> pieces) = 0;
  /// What is timed: one piece's blocking collective, or those of several pieces started one after another
  /// and then waited for, where the library can.
  virtual void call() = 0;
  virtual void barrier() = 0;

  /// Rank 0's bytes to everyone.
  virtual void share(void* data, std::size_t bytes) = 0;
  /// `count` numbers of every rank to rank 0's `all`, in rank order.
  virtual void collect(const double* mine, std::size_t count, double* all) = 0;
};

}  // namespace kolo::bench
