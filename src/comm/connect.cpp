// Rendezvous: how the ranks of a new group find each other through a store.
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/deadline.hpp"
#include "comm/state.hpp"
#include "rendezvous/on_network.hpp"

namespace kolo {
namespace {

std::string random_job() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
}

std::string list_of(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

/// What every rank offers, in rank order. Names those that have not come.
std::vector<std::string> exchange(Store& store, int rank, int size, const std::string& mine,
                                  std::chrono::nanoseconds timeout) {
  store.set(fmt::format("rank/{}", rank), mine);
  std::vector<std::string> keys;
  for (int r = 0; r < size; ++r) keys.push_back(fmt::format("rank/{}", r));
  const auto missing = store.wait(keys, timeout);
  if (!missing.empty()) {
    std::vector<int> ranks;
    for (const std::string& key : missing) ranks.push_back(std::stoi(key.substr(key.find('/') + 1)));
    fail_to_meet(fmt::format("{} of {} did not come within {:.3g} s (meeting at {})", list_of(ranks), size,
                             to_seconds(timeout), store.describe()));
  }
  std::vector<std::string> all;
  for (const std::string& key : keys) all.push_back(store.get(key, timeout));
  return all;
}

}  // namespace

Group connect(Store& store, int rank, int size, Terms& terms) {
  const auto deadline = Deadline::after(terms.timeout());
  if (rank == 0) store.set("job", random_job());
  try {
    terms.job = store.get("job", deadline.left());
  } catch (const TimeoutError&) {
    fail_to_meet(fmt::format("rank 0 of {} did not come within {:.3g} s (meeting at {})", size,
                             to_seconds(terms.timeout()), store.describe()));
  }
  terms.store_host = host_of(store);
  Offer offer = make_offer(rank, terms);
  const auto offers = exchange(store, rank, size, offer.text, deadline.left());
  return join(rank, std::move(offer), offers, terms, deadline);
}

}  // namespace kolo
