// Calls: runs the steps of a round on one rank, and checks every result.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"
#include "stress/memory.hpp"
#include "stress/plan.hpp"

namespace kolo::stress {

/// An error that must never happen.
class Wrong : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Calls {
 public:
  /// Collective.
  Calls(Communicator world, Memory& memory);

  /// Throws kolo's error if the calls fail, Wrong if a call succeeds with a wrong result.
  void run(const Step& step);
  /// Broadcasts whether rank 0 has been asked to end. Throws kolo's error.
  bool agree(bool finish);
  /// Whether a call fails at once, as it must after a failure.
  bool all_fail() const;

  /// Shrinks until `left` ranks are left, and checks their sums. Throws kolo's error if that fails, Wrong if
  /// a sum is wrong or fewer ranks are left.
  void go_on(int left);

  /// The world's rank that an error of the latest step names; -1: none that is known here.
  int blamed(const ErrorContext& context) const;

 private:
  /// One call of a step: where its data is, and what it is.
  struct Call {
    std::uint64_t number;
    std::int32_t* in;
    std::int32_t* out;
    Work work;
  };

  const Communicator& group() const { return groups_[static_cast<std::size_t>(step_.group)]; }
  int world_rank(int rank) const;
  std::int32_t base(std::uint64_t call, int rank) const;
  std::int32_t base_of_sum(std::uint64_t call) const;
  Call prepare();
  void start(Call& call) const;
  void check(const Call& call) const;
  void expect(const std::int32_t* data, std::uint64_t first, std::uint64_t count, std::int32_t base,
              std::int32_t factor) const;

  Memory& memory_;
  std::vector<Communicator> groups_;  ///< by Group
  Step step_;
  std::uint64_t made_ = 0;
};

}  // namespace kolo::stress
