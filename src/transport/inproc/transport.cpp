// The inproc transport: ranks that are threads of one process.
#include "transport/transport.hpp"

#include "transport/inproc/address.hpp"
#include "transport/inproc/endpoint.hpp"
#include "transport/inproc/switchboard.hpp"
#include "transport/missing.hpp"

namespace kolo {
namespace inproc {
namespace {

class InprocTransport final : public Transport {
 public:
  explicit InprocTransport(const TransportOptions& options)
      : job_(options.job), key_(options.key), address_(new_address()) {}

  std::string_view name() const override { return "inproc"; }
  std::string address() const override { return address_; }
  bool reaches(std::string_view one, std::string_view other) const override {
    return same_process(one, other);
  }
  Result<std::vector<std::unique_ptr<Endpoint>>> connect(int rank, std::span<const TransportPeer> peers,
                                                         const Deadline& deadline,
                                                         const IsGone& is_gone) override;

 private:
  std::string job_, key_, address_;
};

Result<std::vector<std::unique_ptr<Endpoint>>> InprocTransport::connect(int rank,
                                                                        std::span<const TransportPeer> peers,
                                                                        const Deadline& deadline,
                                                                        const IsGone& is_gone) {
  std::vector<Meeting> meetings;
  for (const TransportPeer& peer : peers) {
    if (peer.rank == rank || !of_this_process(peer.address)) {
      return Status(Code::invalid_argument,
                    "inproc: rank " + std::to_string(peer.rank) + " is no other rank of this process");
    }
    meetings.push_back(rank < peer.rank ? Meeting{job_, key_, rank, peer.rank, address_, peer.address}
                                        : Meeting{job_, key_, peer.rank, rank, peer.address, address_});
  }
  auto met = Switchboard::instance().meet(meetings, deadline,
                                          [&](std::size_t i) { return is_gone && is_gone(peers[i].rank); });
  if (!met.ok()) return met.status();
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    endpoints.push_back(std::make_unique<InprocEndpoint>(met->channels[i], rank < peers[i].rank ? 0 : 1));
  }
  if (!met->missing.empty()) {
    std::map<int, std::string> missing;
    for (const std::size_t i : met->missing) missing[peers[i].rank];
    const auto gone = those_gone(is_gone, missing);
    return ranks_missing("inproc", rank, gone.empty() ? missing : gone);
  }
  return endpoints;
}

}  // namespace
}  // namespace inproc

Result<std::unique_ptr<Transport>> make_inproc_transport(const TransportOptions& options) {
  return std::unique_ptr<Transport>(std::make_unique<inproc::InprocTransport>(options));
}

}  // namespace kolo
