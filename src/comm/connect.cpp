// How the ranks of a new group get from a store to links.
#include <algorithm>

#include "comm/roll_call.hpp"
#include "comm/state.hpp"
#include "rendezvous/on_network.hpp"

namespace kolo {

Group connect(Store& store, int rank, int size, Terms& terms) {
  RollCall roll_call(store, rank, size, terms.timeout());
  try {
    terms.job = roll_call.job();
    terms.store_host = host_of(store);
    Offer offer = make_offer(rank, terms);
    const auto offers = roll_call.offers(offer.text);
    // Who came last, or at the last moment, has not made the others late.
    const auto deadline = Deadline::after(std::max<std::chrono::nanoseconds>(roll_call.left(), kJoinTime));
    return join(rank, std::move(offer), offers, terms, deadline, [&](int) { return roll_call.is_off(); });
  } catch (const Error& error) {
    roll_call.call_off(error.what());
    if (!roll_call.reason().empty()) fail_to_meet(roll_call.reason());
    throw;
  }
}

}  // namespace kolo
