#include "transport/tcp/process_mark.hpp"

#include <sys/socket.h>
#include <sys/un.h>

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
  sockaddr_un address{};
  const socklen_t length = net::abstract_address(name_, address);
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) name_.clear();
}

bool ProcessMark::has_ended(const std::string& name) {
  sockaddr_un address{};
  const UniqueFd probe = make_socket();
  const socklen_t length = net::abstract_address(name, address);
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace kolo::transport::tcp
