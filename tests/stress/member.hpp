// Member: the life of one process of an elastic job. It comes, makes calls, regroups, and comes again where
// it was left out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "stress/plan.hpp"

namespace kolo::stress {

inline constexpr std::size_t kSlots = 12;

/// What a process tells of itself. All zero when its slot is given to it.
struct MemberReport {
  static constexpr int kText = 480;

  std::atomic<std::uint64_t> group;  ///< identity of the group that had the last sum
  std::atomic<std::uint64_t> sums;   ///< how many there were
  std::atomic<int> rank;
  std::atomic<int> regroupings;  ///< that it has begun
  std::atomic<int> descriptors;
  std::atomic<long> resident_kb;    ///< of its memory, without what it shares
  std::atomic<int> times_left_out;  ///< by a group in which it had had a sum
  std::atomic<int> joined_again;    ///< where the group has not come about
  char fault[kText];                ///< what must never happen, or empty
};

/// Memory that the processes of a job share with the program that starts and kills them.
struct JobControl {
  std::atomic<bool> is_over;
  std::atomic<int> prey;           ///< the process that the next one to return from a meeting kills
  std::atomic<int> store_port;     ///< of the store that was served last
  std::atomic<std::uint32_t> cut;  ///< which of its connections a process that gets SIGUSR1 shuts down
  MemberReport members[kSlots];
};

struct Role {
  std::size_t slot = 0;
  int number = 0;  ///< unlike that of any other process of the job, and not 0
  int size = 0;    ///< the first group's; 0: a newcomer
  std::string transport;
  std::string file;  ///< the store; empty: the first rank, and then the lowest that lives, serves one on TCP
  std::string program;
  std::string process;
  bool is_stranger = false;  ///< it must be refused
};

/// `numbers`: of the processes of a group, by slot; 0 where there is none.
std::uint64_t identity_of(std::span<const std::int64_t> numbers);

/// In a process of its own, which it ends.
[[noreturn]] void be_member(const Role& role, const Limits& limits, JobControl& control);

}  // namespace kolo::stress
