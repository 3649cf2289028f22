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

/// Number of processes with TEST_MARK=`mark` in their environment, except this one and zombies; with `state`
/// only those in it ('T': stopped).
inline int survivors(const std::string& mark, char state = 0) {
  int found = 0;
  DIR* proc = ::opendir("/proc");
  while (const dirent* entry = ::readdir(proc)) {
    const std::string folder = std::string("/proc/") + entry->d_name;
    std::ifstream file(folder + "/environ", std::ios::binary);
    std::ostringstream content, stat;
    if (std::atoi(entry->d_name) > 0 && file) content << file.rdbuf();
    if (content.str().find("TEST_MARK=" + mark) == std::string::npos) continue;
    stat << std::ifstream(folder + "/stat").rdbuf();  // pid (name) state ...
    if (state == 0 || stat.str().find(std::string(") ") + state) != std::string::npos) ++found;
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
