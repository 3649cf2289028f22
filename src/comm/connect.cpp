// How the ranks of a new group get from a roll call to links.
#include <algorithm>

#include "comm/roll_call.hpp"
#include "comm/state.hpp"

namespace kolo {

Wireup connect(RollCall& roll_call, int rank, Terms& terms) {
  terms.job = roll_call.job();
  Offer offer = make_offer(rank, terms);
  const auto offers = roll_call.offers(offer.text);
  // If the last rank has come just before the deadline, all ranks still have time to connect.
  const auto deadline = Deadline::after(std::max<std::chrono::nanoseconds>(roll_call.left(), kJoinTime));
  return join(rank, std::move(offer), offers, terms, deadline, [&](int) { return roll_call.is_off(); });
}

}  // namespace kolo
