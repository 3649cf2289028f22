// The control groups (version 1 or 2) that a process is in, as files below /sys/fs/cgroup.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace kolo {

/// Calls `visit` with the folder of the process's group for `controller` ("cpu", "memory"), and of all groups
/// around it. `membership` is /proc/self/cgroup; `mount` is what is mounted at /sys/fs/cgroup. Also visits
/// folders that do not exist.
void for_each_cgroup(const std::filesystem::path& membership, const std::filesystem::path& mount,
                     std::string_view controller,
                     const std::function<void(const std::filesystem::path&)>& visit);

}  // namespace kolo
