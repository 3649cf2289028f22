// The last rank is killed, and each other rank prints the error of its next call.
#include <kolo/kolo.hpp>

#include <signal.h>

#include <chrono>
#include <cstdio>
#include <thread>

int main() {
  try {
    kolo::Communicator communicator = kolo::Communicator::create();
    communicator.barrier();
    if (communicator.rank() + 1 == communicator.size()) ::raise(SIGKILL);
    communicator.barrier();
  } catch (const kolo::Error& error) {
    // The launcher knows of the death long before this rank has cleaned up and prints.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  return 0;
}
