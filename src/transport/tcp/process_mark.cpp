#include "transport/tcp/process_mark.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "net/random.hpp"
#include "net/socket.hpp"

namespace kolo::transport::tcp {
namespace {

UniqueFd make_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

}  // namespace

ProcessMark::ProcessMark() : name_("kolo-tcp-" + net::random_hex(12)), fd_(make_socket()) {
  if (net::call_with_abstract_address(::bind, fd_.get(), name_) != 0) name_.clear();
}

bool ProcessMark::has_ended(const std::string& name) {
  return net::call_with_abstract_address(::connect, make_socket().get(), name) == ECONNREFUSED;
}

}  // namespace kolo::transport::tcp
