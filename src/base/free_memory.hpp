// How much more memory a process can get before the system kills a process for lack of it.
#pragma once

#include <cstdint>
#include <string>

namespace kolo {

/// In bytes, from /proc/meminfo and the limits of this process's control groups; the largest number if
/// neither is known. Swap counts as memory.
std::uint64_t free_memory();

/// The free memory by /proc/meminfo, or by a file of that form.
std::uint64_t system_free_memory(const std::string& meminfo);

/// The least that any of the process's control groups (version 1 or 2) still allows. `membership` is
/// /proc/self/cgroup; `mount` is what is mounted at /sys/fs/cgroup; `swap_free` is the system's. Files in
/// memory that the system can drop count as free.
std::uint64_t cgroup_free_memory(const std::string& membership, const std::string& mount,
                                 std::uint64_t swap_free);

}  // namespace kolo
