// A group that takes no newcomers: rank 1 of 2 is killed, and rank 0 works on alone for some seconds.
#include <kolo/kolo.hpp>

#include <signal.h>

#include <chrono>
#include <cstdio>
#include <thread>

int main() {
  try {
    const kolo::Communicator communicator = kolo::Communicator::create();
    if (communicator.rank() == 1) ::raise(SIGKILL);
    std::this_thread::sleep_for(std::chrono::seconds(3));
  } catch (const kolo::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  return 0;
}
