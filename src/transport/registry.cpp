#include <algorithm>

#include "base/config.hpp"
#include "net/credentials.hpp"
#include "transport/transport.hpp"

namespace kolo::transport {

Result<TransportOptions> make_transport_options(const Config& config, std::string key, std::string job,
                                                std::string store_host, std::string host) {
  auto credentials = net::make_credentials(config, std::move(key));
  if (!credentials.ok()) return credentials.status();
  TransportOptions options;
  options.job = std::move(job);
  options.key = std::move(credentials->key);
  options.interface = config.interface;
  options.ports = config.ports;
  options.heartbeat = config.heartbeat;
  options.host = std::move(host);
  options.store_host = std::move(store_host);
  options.insecure = credentials->insecure;
  options.tls = std::move(credentials->tls);
  return options;
}

std::span<const TransportFactory> transport_factories() {
  static constexpr auto kNothingToCheck = [](const TransportOptions&) { return Status(); };
  static constexpr TransportFactory kFactories[] = {
      {.name = "inproc",
       .purpose = "ranks that are threads of one process",
       .reach = Reach::process,
       .pulls = true,
       .shares_memory = false,
       .make = make_inproc_transport,
       .check = kNothingToCheck},
      {.name = "shm",
       .purpose = "ranks on one host, through shared memory",
       .reach = Reach::host,
       .pulls = true,
       .shares_memory = true,
       .make = make_shm_transport,
       .check = kNothingToCheck},
      {.name = "tcp",
       .purpose = "ranks on any hosts, through sockets",
       .reach = Reach::network,
       .pulls = false,
       .shares_memory = false,
       .make = make_tcp_transport,
       .check = check_tcp_settings},
  };
  return kFactories;
}

const TransportFactory* find_transport(std::string_view name) {
  const auto known = transport_factories();
  const auto found = std::ranges::find(known, name, &TransportFactory::name);
  return found == known.end() ? nullptr : &*found;
}

const TransportFactory& fastest_transport(Reach reach) {
  return *find_transport(transport_names(reach).front());
}

std::vector<std::string> transport_names(Reach reach) {
  std::vector<std::string> names;
  for (const TransportFactory& factory : transport_factories()) {
    if (factory.reach >= reach) names.emplace_back(factory.name);
  }
  return names;
}

}  // namespace kolo::transport
