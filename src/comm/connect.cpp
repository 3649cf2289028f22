// Rendezvous: how the ranks of a new group find each other through a store.
#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/deadline.hpp"
#include "base/log.hpp"
#include "base/reminder.hpp"
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

[[noreturn]] void fail_to_come(const std::string& who, const Store& store, const Terms& terms) {
  fail_to_meet(fmt::format("{} did not come within {:.3g} s (meeting at {})", who,
                           to_seconds(terms.timeout()), store.describe()));
}

/// Waits for the keys and returns those that are missing at the deadline. Meanwhile one rank, which `speaks`,
/// says every now and then for what.
template <typename Name>
std::vector<std::string> wait(Store& store, const std::vector<std::string>& keys, const Deadline& deadline,
                              bool speaks, const Name& name) {
  for (Reminder reminder;;) {
    const auto left = deadline.left();
    auto missing = store.wait(keys, speaks ? std::min(left, reminder.until_due()) : left);
    if (missing.empty() || deadline.passed()) return missing;
    if (speaks && reminder.is_due()) {
      log().warn("waiting {:.0f} s for {} to come (meeting at {})", reminder.waited_seconds(), name(missing),
                 store.describe());
    }
  }
}

/// What every rank offers, in rank order. Names those that have not come.
std::vector<std::string> exchange(Store& store, int rank, int size, const std::string& mine,
                                  const Terms& terms, const Deadline& deadline) {
  store.set(fmt::format("rank/{}", rank), mine);
  std::vector<std::string> keys;
  for (int r = 0; r < size; ++r) keys.push_back(fmt::format("rank/{}", r));
  const auto name = [&](const std::vector<std::string>& missing) {
    std::vector<int> ranks;
    for (const std::string& key : missing) ranks.push_back(std::stoi(key.substr(key.find('/') + 1)));
    return fmt::format("{} of {}", list_of(ranks), size);
  };
  const auto missing = wait(store, keys, deadline, rank == 0, name);
  if (!missing.empty()) fail_to_come(name(missing), store, terms);
  std::vector<std::string> all;
  for (const std::string& key : keys) all.push_back(store.get(key, deadline.left()));
  return all;
}

}  // namespace

Group connect(Store& store, int rank, int size, Terms& terms) {
  const auto deadline = Deadline::after(terms.timeout());
  if (rank == 0) store.set("job", random_job());
  const std::string rank_zero = fmt::format("rank 0 of {}", size);
  const auto missing =
      wait(store, {"job"}, deadline, rank == size - 1, [&](const auto&) { return rank_zero; });
  if (!missing.empty()) fail_to_come(rank_zero, store, terms);
  terms.job = store.get("job", deadline.left());
  terms.store_host = host_of(store);
  Offer offer = make_offer(rank, terms);
  const auto offers = exchange(store, rank, size, offer.text, terms, deadline);
  return join(rank, std::move(offer), offers, terms, deadline);
}

}  // namespace kolo
