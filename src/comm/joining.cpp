// Joining a group that is there already: a newcomer's side of regroup().
#include <algorithm>

#include <fmt/format.h>

#include "base/config.hpp"
#include "base/log.hpp"
#include "comm/checked_store.hpp"
#include "comm/lobby.hpp"
#include "comm/settings.hpp"
#include "comm/state.hpp"
#include "comm/system_errors.hpp"
#include "net/credentials.hpp"
#include "rendezvous/meeting.hpp"
#include "transport/host_mark.hpp"

namespace kolo {
namespace {

constexpr std::chrono::seconds kOpenTime{1};    // for one store of several
constexpr std::chrono::seconds kQueueTime{10};  // in one store of several

std::shared_ptr<Store> open_store(const std::string& url, const Options& options) {
  rendezvous::Meeting meeting;
  rendezvous::parse_store_url(url, meeting).throw_if_error();
  meeting.address.credentials = net::make_credentials(config(), comm::key_of(options)).value_or_throw();
  return rendezvous::hold_meeting(meeting, kOpenTime).value_or_throw();
}

}  // namespace

std::shared_ptr<Communicator::State> Communicator::State::join(const std::shared_ptr<Store>& store,
                                                               const Options& options,
                                                               const Deadline& deadline) {
  comm::Newcomer newcomer(comm::make_checked_store(store, comm::timeout_of(options)), options);
  while (const auto call = newcomer.await_call(deadline)) {
    comm::Terms terms{call->job, store->host(), options};
    terms.options.measure_costs = call->measures;
    const transport::HostMark mark(call->job, call->place, call->total);
    terms.host = mark.name();
    comm::Offer offer = comm::make_offer(call->place, terms);
    const auto group = newcomer.await_group(offer.text);
    if (!group) continue;
    try {
      const comm::Wireup wireup =
          comm::join(group->rank, std::move(offer), group->offers, terms, Deadline::after(comm::kJoinTime));
      auto made = make(wireup, group->rank, static_cast<int>(group->offers.size()), terms);
      made->store = store;
      Communicator whole(made);
      made->explore(whole, wireup, terms.options.measure_costs);
      made->share_memory();
      made->fresh_until = made->calls + 2;  // the first may have failed
      return made;
    } catch (const SystemError&) {
      throw;
    } catch (const Error& problem) {
      log().info("a newcomer goes back into line: {}", problem.what());
    }
  }
  return nullptr;
}

Communicator comm::join_or_meet(const std::shared_ptr<Store>& store, const Launch& launch, Options options) {
  if (options.process.empty()) options.process = fmt::format("{}", launch.rank);
  const bool joins = config().join == "always" || store->wait({rendezvous::kGroupHasMet}, {}).empty();
  auto made = joins ? Communicator::join(store, options)
                    : Communicator::create(store, launch.rank, launch.size, options);
  store->set(rendezvous::kGroupHasMet, "");
  store->set(rendezvous::attendance_key(launch.rank), "");
  return made;
}

Communicator Communicator::join(std::shared_ptr<Store> store, const Options& options) {
  comm::refuse_inside_reduction("join");
  if (store == nullptr) throw InvalidArgumentError("Communicator::join: the store is null", {});
  return comm::with_system_errors([&] {
    comm::check_settings(options).throw_if_error();
    const auto timeout = comm::timeout_of(options);
    auto made = State::join(store, options, Deadline::after(timeout));
    if (made == nullptr)
      comm::fail_to_meet(
          fmt::format("no group has taken this newcomer within {:.3g} s (waiting at {}); a group "
                      "does so in regroup()",
                      to_seconds(timeout), store->describe()));
    return Communicator(std::move(made));
  });
}

Communicator Communicator::join(const std::vector<std::string>& stores, const Options& options) {
  comm::refuse_inside_reduction("join");
  return comm::with_system_errors([&] {
    comm::check_settings(options).throw_if_error();
    const auto timeout = comm::timeout_of(options);
    std::string last = "no store is named";
    for (const Deadline deadline = Deadline::after(timeout); !deadline.passed() && !stores.empty();) {
      for (const std::string& url : stores) {
        try {
          const auto patience = std::min<std::chrono::nanoseconds>(deadline.left(), kQueueTime);
          auto made = State::join(open_store(url, options), options, Deadline::after(patience));
          if (made != nullptr) return Communicator(std::move(made));
          last = "no group has called at " + url;
        } catch (const RendezvousError& problem) {
          last = problem.what();
        }
      }
    }
    comm::fail_to_meet(
        fmt::format("no group has taken this newcomer within {:.3g} s: {}", to_seconds(timeout), last));
  });
}

bool Communicator::has_newcomers() const {
  State& own = state();
  if (own.rank != 0 || own.store == nullptr) return false;
  const std::lock_guard lock(own.mutex);
  if (own.watch == nullptr) {
    own.watch = std::make_unique<comm::LobbyWatch>(comm::make_checked_store(own.store, own.timeout),
                                                   own.terms.options);
  }
  return own.watch->has_seen_any();
}

Communicator Communicator::regroup(std::shared_ptr<Store> store, const RegroupOptions& options) {
  comm::refuse_inside_reduction("regroup");
  return comm::with_system_errors([&] { return Communicator(state().regroup(std::move(store), &options)); });
}

Communicator Communicator::shrink() {
  comm::refuse_inside_reduction("shrink");
  return comm::with_system_errors([&] { return Communicator(state().regroup(nullptr, nullptr)); });
}

}  // namespace kolo
