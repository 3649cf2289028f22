// The control groups (version 1 or 2) that a process is in, as files below /sys/fs/cgroup.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace kolo {

/// Calls `visit` with the folder of the process's group for `controller` ("cpu", "memory"), and of all groups
/// around it. `membership` is /proc/self/cgroup; `mount` is what is mounted at /sys/fs/cgroup. Also visits
/// folders that do not exist. Paths are strings: libstdc++ 12 frees memory twice where a
/// std::filesystem::path has none to grow.
void for_each_cgroup(const std::string& membership, const std::string& mount, std::string_view controller,
                     const std::function<void(const std::string&)>& visit);

}  // namespace kolo
