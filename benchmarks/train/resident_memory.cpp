#include "train/resident_memory.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <string>

namespace kolo::bench {

double resident_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    double kibibytes = 0;
    if (word == "Pss:" && file >> kibibytes) return 1024 * kibibytes;
  }
  throw std::runtime_error("/proc/self/smaps_rollup does not tell how much memory is resident");
}

ResidentPeak::ResidentPeak()
    : peak_(resident_bytes()), thread_([this] {
        while (!is_over_) {
          peak_ = std::max(peak_.load(), resident_bytes());
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }) {}

ResidentPeak::~ResidentPeak() {
  is_over_ = true;
  thread_.join();
}

}  // namespace kolo::bench
