// How much memory a process can still get before the system kills a process for it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace kolo {

/// In bytes, by /proc/meminfo and by the limits of this process's control groups; the largest number where
/// nothing is known. Swap counts as memory.
std::uint64_t free_memory();

/// What /proc/meminfo says, or a file like it.
std::uint64_t system_free_memory(const std::filesystem::path& meminfo);

/// The least that any group (version 1 or 2) still allows, given /proc/self/cgroup, what is mounted at
/// /sys/fs/cgroup, and the system's free swap. Files in memory that the system can drop count as free.
std::uint64_t cgroup_free_memory(const std::filesystem::path& membership, const std::filesystem::path& mount,
                                 std::uint64_t swap_free);

}  // namespace kolo
