// The control groups (version 1 or 2) that a process is in, as files below /sys/fs/cgroup.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace kolo {

/// Calls `visit` with the folder of each group that holds the process for `controller` ("cpu", "memory"), and
/// of all groups around it; given its /proc/self/cgroup and what is mounted at /sys/fs/cgroup. Folders that
/// do not exist are visited as well.
void for_each_cgroup(const std::filesystem::path& membership, const std::filesystem::path& mount,
                     std::string_view controller,
                     const std::function<void(const std::filesystem::path&)>& visit);

}  // namespace kolo
