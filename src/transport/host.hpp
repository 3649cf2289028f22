// What the kernel tells of this host, which it may hide.
#pragma once

#include <string>

namespace kolo::transport {

/// The kernel's boot id, the same in all containers of a kernel; empty if it is hidden.
std::string boot_id();
/// The inode of this process's namespace of a kind, as in /proc/self/ns; empty if it is hidden.
std::string namespace_of(const char* kind);

}  // namespace kolo::transport
