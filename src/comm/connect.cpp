// How the ranks of a new group get from an exchange of addresses to links.
#include <algorithm>

#include "comm/address_exchange.hpp"
#include "comm/state.hpp"
#include "transport/host_mark.hpp"

namespace kolo::comm {

Wireup connect(AddressExchange& address_exchange, int rank, Terms& terms) {
  while (true) {
    terms.job = address_exchange.job();
    const transport::HostMark mark(terms.job, rank, address_exchange.size());
    terms.host = mark.name();
    Offer offer = make_offer(rank, terms);
    const auto offers = address_exchange.offers(offer.text);
    if (offers.empty()) continue;  // another round has begun
    // If the last rank has come just before the deadline, all ranks still have time to connect.
    const auto deadline =
        Deadline::after(std::max<std::chrono::nanoseconds>(address_exchange.left(), kJoinTime));
    return join(rank, std::move(offer), offers, terms, deadline,
                [&](int) { return address_exchange.is_off(); });
  }
}

}  // namespace kolo::comm
