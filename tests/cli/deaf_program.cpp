// deaf FILE: a group that takes no newcomers. Rank 1 of 2 is killed, and rank 0 works on alone until the file
// exists.
#include <kolo/kolo.hpp>

#include <signal.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

int main(int, char** argv) {
  try {
    const kolo::Communicator communicator = kolo::Communicator::create();
    if (communicator.rank() == 1) ::raise(SIGKILL);
    while (!std::filesystem::exists(argv[1])) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } catch (const kolo::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  return 0;
}
