// Parts of a communicator with links in common: split(), subgroup(), create_group().
#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.hpp"
#include "comm/state.hpp"

namespace kolo {

// Several threads may split several communicators at once, in a different order on each rank. So "the next
// free number" could belong to different communicators on different ranks. Instead all ranks try the same
// numbers, generated from what they all know, until one is free on all of them. Slots are few: each rank
// takes its first free slot, and repeats that until all ranks have taken the same one. The all_reduce shows
// that all have taken it, and cleared it before.
engine::Group* Communicator::State::reserve_group(std::mt19937 candidates, std::uint32_t split) {
  std::uint32_t next_slot = 0;
  while (true) {
    const auto candidate = static_cast<std::uint32_t>(candidates());
    engine::Group* const reserved = engine->reserve(candidate, next_slot);
    const std::uint32_t slot = reserved != nullptr ? reserved->slot : next_slot;
    std::uint32_t most[3] = {reserved != nullptr ? 0u : 1u, slot, ~slot};
    const Buffer data(most, 3, DType::uint32);
    comm::Call call{.collective = schedule::Collective::all_reduce, .in = data, .out = data, .split = split};
    call.reduction = ReduceOp::max;
    start(std::move(call), true).wait();
    const auto [taken, highest, inverse_of_lowest] = most;
    if (taken == 0 && highest == ~inverse_of_lowest) return reserved;
    if (reserved != nullptr) engine->withdraw(*reserved);
    next_slot = highest;
  }
}

namespace {

std::uint64_t hash_of(std::span<const int> ranks) {
  std::uint64_t value = kHashSeed;
  for (const int rank : ranks) value = hash(value, static_cast<std::uint64_t>(rank));
  return value;
}

/// "subgroup({0, 1, 2})"; a long list's first ranks are named.
std::string describe_list(std::string_view call, std::span<const int> ranks) {
  constexpr std::size_t kShown = 16;
  const auto shown = ranks.first(std::min(ranks.size(), kShown));
  const std::string more = ranks.size() > kShown ? fmt::format(" and {} more", ranks.size() - kShown) : "";
  return fmt::format("{}({{{}{}}})", call, fmt::join(shown, ", "), more);
}

/// Where this rank is in the list, or -1. Throws InvalidArgumentError for a list that cannot be.
template <typename State>
int place_in(const State& own, std::string_view call, std::span<const int> ranks) {
  const auto wrong = [&](int wrong_rank, const std::string& what) {
    own.refuse(comm::wrong(call, fmt::format("{} {}", wrong_rank, what)));
  };
  std::vector<bool> seen(static_cast<std::size_t>(own.size), false);
  int place = -1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int listed = ranks[i];
    if (listed < 0 || listed >= own.size)
      wrong(listed, fmt::format("is not a rank of this communicator of {}", own.size));
    if (seen[static_cast<std::size_t>(listed)]) wrong(listed, "is listed twice");
    seen[static_cast<std::size_t>(listed)] = true;
    if (listed == own.rank) place = static_cast<int>(i);
  }
  return place;
}

/// An all_gather by which ranks agree on a part of their communicator.
template <typename State>
auto gather_among(State& ranks, std::uint32_t split) {
  return [&ranks, split](ConstBuffer in, Buffer out, const Counts& counts) {
    comm::Call call{.collective = schedule::Collective::all_gather, .in = in, .out = out, .split = split};
    ranks.run(std::move(call), counts);
  };
}

/// Collective: throws an error that says what each rank has asked for. `lengths`: of the ranks' lists, -1 for
/// split(). `call`: that lists were passed to.
template <typename Gather>
[[noreturn]] void fail_as_different(const Gather& gather, const std::vector<std::int64_t>& lengths,
                                    std::string_view call, const std::vector<int>& mine,
                                    const std::vector<int>& callers) {
  std::vector<std::uint64_t> counts;
  for (const std::int64_t length : lengths)
    counts.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(length, 0)));
  std::vector<int> lists(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  gather(ConstBuffer(mine), Buffer(lists), counts);
  // What is asked for, and by which ranks.
  std::map<std::pair<bool, std::vector<int>>, std::vector<int>> wishes;
  auto rest = std::span<const int>(lists);
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    const auto list = rest.first(counts[rank]);
    rest = rest.subspan(counts[rank]);
    wishes[{lengths[rank] < 0, {list.begin(), list.end()}}].push_back(callers[rank]);
  }
  std::vector<std::string> texts;
  for (const auto& [wish, ranks] : wishes) {
    texts.push_back(fmt::format("{} {} called {}", ranks.size() == 1 ? "rank" : "ranks",
                                fmt::join(ranks, ", "),
                                wish.first ? "split()" : describe_list(call, wish.second)));
  }
  throw MismatchError(fmt::format("the ranks disagree: {}", fmt::join(texts, ", ")), {});
}

}  // namespace

Communicator Communicator::split(int color, int key) {
  return state().with_memory([&] { return divide(color, key, nullptr); });
}

Communicator Communicator::divide(int color, int key, const std::vector<int>* listed) {
  comm::refuse_inside_reduction(listed == nullptr ? "split" : "subgroup");
  State& parent = state();
  std::uint32_t number;
  {
    const std::lock_guard lock(parent.mutex);
    number = ++parent.splits;
  }
  const auto gather = gather_among(parent, number);
  struct Wish {
    std::int64_t color;
    std::int64_t key;
    std::int64_t listed_ranks;  ///< -1: split()
    std::uint64_t list_hash;
  };
  const Wish mine{color, key, listed == nullptr ? -1 : static_cast<std::int64_t>(listed->size()),
                  listed == nullptr ? 0 : hash_of(*listed)};
  std::vector<Wish> all(static_cast<std::size_t>(parent.size));
  constexpr std::uint64_t kWords = sizeof(Wish) / sizeof(std::int64_t);
  gather(ConstBuffer(&mine, kWords, DType::int64), Buffer(all.data(), kWords * all.size(), DType::int64), {});
  const auto is_other = [&](const Wish& wish) {
    return wish.listed_ranks != mine.listed_ranks || wish.list_hash != mine.list_hash;
  };
  if (std::ranges::any_of(all, is_other)) {
    std::vector<std::int64_t> lengths;
    for (const Wish& wish : all) lengths.push_back(wish.listed_ranks);
    std::vector<int> callers(all.size());
    std::iota(callers.begin(), callers.end(), 0);
    fail_as_different(gather, lengths, "subgroup", listed == nullptr ? std::vector<int>() : *listed, callers);
  }
  // Groups of different colors share the numbers: they have no rank in common.
  std::seed_seq seed{parent.group->context, number};
  engine::Group* const reserved = parent.reserve_group(std::mt19937(seed), number);
  if (color < 0) {
    parent.engine->withdraw(*reserved);
    return {};
  }

  std::vector<int> members;
  for (int r = 0; r < parent.size; ++r) {
    if (all[static_cast<std::size_t>(r)].color == color) members.push_back(r);
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return all[static_cast<std::size_t>(a)].key < all[static_cast<std::size_t>(b)].key;
  });
  return Communicator(parent.open_part(*reserved, members));
}

std::shared_ptr<Communicator::State> Communicator::State::open_part(engine::Group& reserved,
                                                                    const std::vector<int>& members) {
  auto made = std::make_shared<State>();
  made->engine = engine;
  made->terms = terms;
  made->timeout = timeout.load();
  made->size = static_cast<int>(members.size());
  made->rank = static_cast<int>(std::ranges::find(members, rank) - members.begin());
  made->group = &reserved;
  engine->open(reserved, links_of(members));
  made->chooser = std::make_unique<selection::Chooser>(selection::part_of(chooser->topology(), members));
  made->share_memory();
  return made;
}

Communicator Communicator::subgroup(std::span<const int> ranks) {
  State& parent = state();
  return parent.with_memory([&] {
    const int place = place_in(parent, "subgroup", ranks);
    const std::vector<int> listed(ranks.begin(), ranks.end());
    return divide(place < 0 ? -1 : 0, place, &listed);
  });
}

// The members' calls are messages of their links. Their numbers follow from the set of members, so the calls
// of several groups do not meet, in whatever order the groups are created. The numbers may be those of the
// last group of these ranks: messages of one number keep their order.
std::shared_ptr<Communicator::State> Communicator::State::meet(const std::vector<int>& members,
                                                               std::uint64_t purpose) {
  constexpr std::uint64_t kCalls = std::uint64_t{1} << 16;  // more than a meeting makes
  auto made = std::make_shared<State>();
  made->engine = engine;
  made->timeout = timeout.load();
  made->size = static_cast<int>(members.size());
  made->rank = static_cast<int>(std::ranges::find(members, rank) - members.begin());
  made->chooser = std::make_unique<selection::Chooser>(selection::part_of(chooser->topology(), members));
  made->meeting = true;
  made->calls = hash(hash_of(members), std::uint64_t{group->context} + (purpose << 32)) / 2 / kCalls * kCalls;
  made->group = engine->meet(links_of(members));
  return made;
}

Communicator Communicator::create_group(std::span<const int> ranks) {
  constexpr const char* kName = "create_group";
  comm::refuse_inside_reduction(kName);
  State& parent = state();
  return parent.with_memory([&] {
    if (place_in(parent, kName, ranks) < 0)
      parent.refuse(comm::wrong(describe_list(kName, ranks), "this rank calls it and is not listed"));
    const std::vector<int> listed(ranks.begin(), ranks.end());
    std::vector<int> members = listed;
    std::ranges::sort(members);
    const std::shared_ptr<State> meeting = parent.meet(members);
    struct Wish {
      std::uint64_t list_hash;
      std::uint32_t candidates;  ///< the first member's seed counts
      std::uint32_t padding = 0;
    };
    const Wish mine{hash_of(listed), std::random_device()()};
    std::vector<Wish> all(members.size());
    constexpr std::uint64_t kWords = sizeof(Wish) / sizeof(std::int64_t);
    const auto gather = gather_among(*meeting, comm::kCreatesGroup);
    gather(ConstBuffer(&mine, kWords, DType::int64), Buffer(all.data(), kWords * all.size(), DType::int64),
           {});
    if (std::ranges::any_of(all, [&](const Wish& wish) { return wish.list_hash != mine.list_hash; })) {
      const std::vector<std::int64_t> lengths(members.size(), static_cast<std::int64_t>(members.size()));
      fail_as_different(gather, lengths, kName, listed, members);
    }
    engine::Group* const reserved =
        meeting->reserve_group(std::mt19937(all.front().candidates), comm::kCreatesGroup);
    return Communicator(parent.open_part(*reserved, listed));
  });
}

}  // namespace kolo
