#include "support/interrupt.hpp"

#include <csignal>

namespace support {
namespace {

volatile std::sig_atomic_t caught = 0;

extern "C" void remember(int signal) {
  caught = signal;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int interrupt_signal() {
  return caught;
}

}  // namespace support
