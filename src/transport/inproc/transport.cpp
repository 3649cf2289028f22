// The inproc transport: ranks that are threads of one process.
#include "transport/transport.hpp"

#include <map>

#include "transport/inproc/address.hpp"
#include "transport/inproc/endpoint.hpp"
#include "transport/inproc/switchboard.hpp"

namespace kolo::transport::inproc {
namespace {

/// Both sides of each pair offer a channel or take the other's, as soon as both have a dialer.
class InprocDialer final : public Dialer {
 public:
  void expect(int rank, Meeting meeting, int side) {
    auto offer = Switchboard::instance().meet(meeting, doorbell_);
    if (!offer) return fail(rank, "no descriptors are left");
    auto endpoint = std::make_unique<InprocEndpoint>(offer->channel, side);
    wanted_.emplace(rank, Wanted{std::move(meeting), std::move(offer), std::move(endpoint)});
    doorbell_->ring();  // it may be taken already
  }
  void fail(int rank, const char* why) { failures_[rank] = why; }
  ~InprocDialer() override {
    for (const auto& [rank, wanted] : wanted_) Switchboard::instance().withdraw(wanted.meeting, wanted.offer);
  }

  void dial(int /*rank*/) override {}
  int fd() const override { return doorbell_->fd(); }
  Clock::time_point next_time() const override { return Clock::time_point::max(); }
  std::vector<Connected> progress() override {
    doorbell_->silence();
    std::vector<Connected> connected;
    for (auto& [rank, wanted] : wanted_) {
      if (wanted.offer->is_taken) connected.push_back({rank, std::move(wanted.endpoint)});
    }
    for (const Connected& one : connected) wanted_.erase(one.rank);
    return connected;
  }
  std::string known(int rank) const override { return why_lost(rank); }
  std::string why_lost(int rank) const override {
    const auto found = failures_.find(rank);
    return found == failures_.end() ? std::string() : found->second;
  }
  std::chrono::nanoseconds unreachable_for(int /*rank*/) const override { return {}; }
  std::uint64_t failed_attempts(int /*rank*/) const override { return 0; }

 private:
  struct Wanted {
    Meeting meeting;
    std::shared_ptr<Offer> offer;
    std::unique_ptr<Endpoint> endpoint;
  };

  std::shared_ptr<Doorbell> doorbell_ = std::make_shared<Doorbell>();
  std::map<int, Wanted> wanted_;
  std::map<int, std::string> failures_;
};

class InprocTransport final : public Transport {
 public:
  explicit InprocTransport(const TransportOptions& options)
      : job_(options.job), key_(options.key), address_(new_address()) {}

  std::string_view name() const override { return "inproc"; }
  std::string address() const override { return address_; }
  bool reaches(std::string_view one, std::string_view other) const override {
    return same_process(one, other);
  }
  std::unique_ptr<Dialer> dialer(int rank, std::span<const TransportPeer> peers) override;

 private:
  std::string job_, key_, address_;
};

std::unique_ptr<Dialer> InprocTransport::dialer(int rank, std::span<const TransportPeer> peers) {
  auto dialer = std::make_unique<InprocDialer>();
  for (const TransportPeer& peer : peers) {
    if (!of_this_process(peer.address)) {
      dialer->fail(peer.rank, "it is no rank of this process");
    } else if (rank < peer.rank) {
      dialer->expect(peer.rank, {job_, key_, rank, peer.rank, address_, peer.address}, 0);
    } else {
      dialer->expect(peer.rank, {job_, key_, peer.rank, rank, peer.address, address_}, 1);
    }
  }
  return dialer;
}

}  // namespace
}  // namespace kolo::transport::inproc

namespace kolo::transport {

Result<std::unique_ptr<Transport>> make_inproc_transport(const TransportOptions& options) {
  return std::unique_ptr<Transport>(std::make_unique<inproc::InprocTransport>(options));
}

}  // namespace kolo::transport
