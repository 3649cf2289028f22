#include "transport/transport.hpp"

namespace kolo {

std::span<const TransportFactory> transport_factories() {
  static constexpr TransportFactory kFactories[] = {
      {"inproc", "ranks that are threads of one process", make_inproc_transport},
  };
  return kFactories;
}

}  // namespace kolo
