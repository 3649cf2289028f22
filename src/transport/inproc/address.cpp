#include "transport/inproc/address.hpp"

#include <unistd.h>

#include <atomic>

#include "net/random.hpp"

namespace kolo::transport::inproc {
namespace {

/// The process id tells a forked child, which inherits the random part, from its parent.
std::string process() {
  static const std::string kRandom = net::random_hex(8);
  return std::to_string(::getpid()) + "-" + kRandom;
}

std::string_view process_of(std::string_view address) {
  return address.substr(0, address.find('.'));
}

}  // namespace

std::string new_address() {
  static std::atomic<unsigned> number{0};
  return process() + "." + std::to_string(++number);
}

bool same_process(std::string_view one, std::string_view other) {
  return !process_of(one).empty() && one.find('.') != one.npos && other.find('.') != other.npos &&
         process_of(one) == process_of(other);
}

bool of_this_process(std::string_view address) {
  return process_of(address) == process();
}

}  // namespace kolo::transport::inproc
