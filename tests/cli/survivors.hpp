// Finds processes that a launcher has left behind.
#pragma once

#include <dirent.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace kolo::test {

/// Number of processes with TEST_MARK=`mark` in their environment, except this one and zombies.
inline int survivors(const std::string& mark) {
  int found = 0;
  DIR* proc = ::opendir("/proc");
  while (const dirent* entry = ::readdir(proc)) {
    std::ifstream file(std::string("/proc/") + entry->d_name + "/environ", std::ios::binary);
    std::ostringstream content;
    if (std::atoi(entry->d_name) > 0 && file) content << file.rdbuf();
    if (content.str().find("TEST_MARK=" + mark) != std::string::npos) ++found;
  }
  ::closedir(proc);
  return found;
}

/// Waits until no such process is left. A killed launcher cannot wait for that itself.
inline bool all_gone(const std::string& mark) {
  for (int i = 0; i < 1000; ++i) {
    if (survivors(mark) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace kolo::test
