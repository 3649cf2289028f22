#include "doctor/examination.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>

#include "base/config.hpp"
#include "transport/endpoint.hpp"
#include "transport/transport.hpp"

namespace kolo::doctor {
namespace {

/// Long enough to try the second of two addresses after the first one did not answer.
constexpr auto kDialPatience = std::chrono::seconds(7);
constexpr auto kMeeting = std::chrono::seconds(20);

/// Rank numbers for one dial. Of two ranks the higher one dials.
constexpr int kListener = 0;
constexpr int kDialler = 1;

std::string outcome_of(const std::string& why) {
  if (why.find("refused") != std::string::npos) return "refused";
  if (why.find("o route to") != std::string::npos || why.find("unreachable") != std::string::npos)
    return "no route";
  if (why.find("no answer") != std::string::npos || why.find("timed out") != std::string::npos)
    return "silent";
  return "failed";
}

/// One rank's side of one dial.
class Side {
 public:
  Side(Store& store, const std::string& name, int role, const std::string& host)
      : store_(store), name_(name), role_(role) {
    auto options = transport::make_transport_options(config(), job_key(), name, store.host(), host);
    auto made = options.ok() ? transport::make_tcp_transport(*options) : options.status();
    if (made.ok()) {
      transport_ = std::move(*made);
    } else {
      failure_ = made.status();
    }
    store_.set(key(role_), transport_ ? transport_->address() : "");
  }

  Result<std::unique_ptr<transport::Endpoint>> connect() {
    const int other = role_ == kDialler ? kListener : kDialler;
    const std::string address = store_.get(key(other), kMeeting);
    if (!transport_) return failure_;
    if (address.empty()) return Status(Code::system, "it cannot listen");
    if (!transport_->reaches(transport_->address(), address)) {
      return Status(Code::system, fmt::format("no address of the one suits the other: {} and {}",
                                              transport_->address(), address));
    }
    const std::vector<transport::TransportPeer> peers = {{other, address}};
    auto made = transport::connect_all(*transport_, role_, peers, Deadline::after(kDialPatience));
    if (!made.ok()) return made.status();
    return std::move(made->front());
  }

 private:
  std::string key(int role) const { return fmt::format("{}/{}", name_, role); }

  Store& store_;
  const std::string name_;
  const int role_;
  std::unique_ptr<transport::Transport> transport_;
  Status failure_;
};

std::string name_of(int from, int to) {
  return fmt::format("dial {} to {}", from, to);
}

Dial dial_one(Store& store, int from, int to, const std::string& host) {
  Dial dial;
  dial.from = from;
  dial.to = to;
  try {
    auto endpoint = Side(store, name_of(from, to), kDialler, host).connect();
    dial.outcome = endpoint.ok() ? "ok" : outcome_of(endpoint.status().message());
    if (endpoint.ok()) {
      dial.card = card_of((*endpoint)->fd());
    } else {
      dial.why = endpoint.status().message();
    }
  } catch (const Error& error) {
    dial.outcome = "failed";
    dial.why = error.what();
  }
  return dial;
}

void be_dialled(Store& store, int from, int to, const std::string& host) {
  try {
    [[maybe_unused]] const auto endpoint = Side(store, name_of(from, to), kListener, host).connect();
  } catch (const Error&) {
    // The dialling rank reports the error.
  }
}

}  // namespace

std::vector<Dial> dial_all(Store& store, const std::vector<int>& ranks, int me, const std::string& place) {
  const std::size_t size = ranks.size();
  const auto mine = static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), me) - ranks.begin());
  std::vector<Dial> dials;
  for (std::size_t shift = 1; shift < size; ++shift) {
    const int to = ranks[(mine + shift) % size];
    const int from = ranks[(mine + size - shift) % size];
    auto listening =
        std::async(std::launch::async, [&store, from, me, &place] { be_dialled(store, from, me, place); });
    dials.push_back(dial_one(store, me, to, place));
    listening.wait();
  }
  return dials;
}

}  // namespace kolo::doctor
