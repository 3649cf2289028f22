#include "transport/transport.hpp"

namespace kolo {

std::span<const TransportFactory> transport_factories() {
  static constexpr TransportFactory kFactories[] = {
      {"inproc", "ranks that are threads of one process", make_inproc_transport},
      {"shm", "ranks on one host, through shared memory", make_shm_transport},
      {"tcp", "ranks on any hosts, through sockets", make_tcp_transport},
  };
  return kFactories;
}

}  // namespace kolo
