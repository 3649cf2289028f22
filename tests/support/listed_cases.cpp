#include "support/listed_cases.hpp"

#include "support/require.hpp"

namespace kolo::test {
namespace {

/// Data that has a part of each rank: an array for each part, or one for all.
class Parts {
 public:
  Parts(const Case& c, std::vector<std::uint64_t> counts, bool are_listed)
      : counts_(std::move(counts)), are_listed_(are_listed) {
    if (!are_listed) arrays_.push_back(c.array(Case::before(counts_, c.size())));
    // Mostly in another order than that of the ranks.
    for (std::size_t r = counts_.size(); are_listed && r-- > 0;)
      arrays_.insert(arrays_.begin(), c.array(counts_[r]));
  }

  /// value(rank, index within its part)
  template <typename Value>
  void fill(Value value) {
    for_each([&](Array& array, std::uint64_t at, int r, std::uint64_t i) { array.set(at, value(r, i)); });
  }
  template <typename Value>
  void expect(const std::string& what, Value value) {
    std::vector<std::vector<double>> expected(arrays_.size());
    for_each([&](Array& array, std::uint64_t, int r, std::uint64_t i) {
      expected[static_cast<std::size_t>(&array - arrays_.data())].push_back(value(r, i));
    });
    for (std::size_t k = 0; k < arrays_.size(); ++k)
      arrays_[k].expect(what + (are_listed_ ? " of lists" : " beside lists"),
                        [&](std::uint64_t i) { return expected[k][i]; });
  }
  bool are_listed() const { return are_listed_; }
  std::vector<Buffer> list() {
    std::vector<Buffer> buffers;
    for (Array& array : arrays_) buffers.push_back(array.buffer());
    return buffers;
  }
  Buffer whole() { return arrays_[0].buffer(); }
  Buffer part(int r) {
    const auto at = static_cast<std::size_t>(r);
    return are_listed_ ? arrays_[at].buffer() : arrays_[0].part(Case::before(counts_, r), counts_[at]);
  }

 private:
  template <typename Visit>
  void for_each(Visit visit) {
    for (std::size_t r = 0; r < counts_.size(); ++r) {
      const std::uint64_t begin = are_listed_ ? 0 : Case::before(counts_, static_cast<int>(r));
      for (std::uint64_t i = 0; i < counts_[r]; ++i)
        visit(arrays_[are_listed_ ? r : 0], begin + i, static_cast<int>(r), i);
    }
  }

  std::vector<std::uint64_t> counts_;
  bool are_listed_;
  std::vector<Array> arrays_;
};

/// Makes `block` or `begin`'s call, as the case asks.
template <typename Block, typename Begin>
void make(const Listing& listing, Block block, Begin begin) {
  listing.blocks ? block() : begin().wait();
}

struct Listed {
  const Case& c;
  const Listing& listing;
  std::vector<std::uint64_t> counts;
  std::uint64_t own = 0;

  Listed(const Case& of, std::uint64_t count, const Listing& how)
      : c(of),
        listing(how),
        counts(of.parts(count, how.uneven)),
        own(counts[static_cast<std::size_t>(of.rank())]) {}
  bool lists_here() const { return listing.on_all || c.rank() % 2 == 0; }
  /// What ranks without a list pass; none and equal ones are the same.
  std::vector<std::uint64_t> given() const {
    return listing.uneven || c.rank() % 3 == 0 ? counts : std::vector<std::uint64_t>();
  }
  std::uint64_t begin_of(int r) const { return Case::before(counts, r); }
};

void reduce_scatter(const Listed& l) {
  const Case& c = l.c;
  Parts in(c, l.counts, l.lists_here());
  Array out = c.array(l.own);
  const auto contributed = [&](int r, std::uint64_t i) { return c.own(l.begin_of(r) + i); };
  const auto sum = [&](std::uint64_t i) { return c.all(l.begin_of(c.rank()) + i); };
  const auto run_to = [&](Buffer to) {
    if (!in.are_listed()) return c.communicator.reduce_scatter(in.whole(), to, c.op, l.given(), c.options);
    const auto list = in.list();
    make(
        l.listing, [&] { c.communicator.reduce_scatter(list, to, c.op, c.options); },
        [&] { return c.communicator.reduce_scatter_async(list, to, c.op, c.options); });
  };
  in.fill(contributed);
  run_to(out.buffer());
  out.expect("reduce_scatter of lists", sum);
  in.expect("input of reduce_scatter", contributed);
  run_to(in.part(c.rank()));
  in.expect("reduce_scatter in place",
            [&](int r, std::uint64_t i) { return r == c.rank() ? sum(i) : contributed(r, i); });
}

void all_gather(const Listed& l) {
  const Case& c = l.c;
  const auto value = [&](int r, std::uint64_t i) { return contribution(r, i, c.op); };
  Array in = c.array(l.own);
  in.fill([&](std::uint64_t i) { return value(c.rank(), i); });
  Parts out(c, l.counts, l.lists_here());
  const auto run_from = [&](Buffer from) {
    if (!out.are_listed()) return c.communicator.all_gather(from, out.whole(), l.given(), c.options);
    const auto list = out.list();
    make(
        l.listing, [&] { c.communicator.all_gather(from, list, c.options); },
        [&] { return c.communicator.all_gather_async(from, list, c.options); });
  };
  run_from(in.buffer());
  out.expect("all_gather", value);
  out.fill([&](int r, std::uint64_t i) { return r == c.rank() ? value(r, i) : 0; });
  run_from(out.part(c.rank()));
  out.expect("all_gather in place", value);
}

void scatter(const Listed& l) {
  const Case& c = l.c;
  for (int root = 0; root < c.size(); ++root) {
    const bool is_root = c.rank() == root;
    const auto value = [&](int r, std::uint64_t i) { return contribution(root, l.begin_of(r) + i, c.op); };
    Array out = c.array(l.own);
    Parts in(c, is_root ? l.counts : std::vector<std::uint64_t>(l.counts.size()), l.lists_here());
    in.fill(value);
    const auto run_to = [&](Buffer to) {
      // The root needs no counts.
      const auto counts = is_root && in.are_listed() ? std::vector<std::uint64_t>() : l.given();
      if (!in.are_listed()) return c.communicator.scatter(in.whole(), to, root, counts, c.options);
      const auto list = is_root ? in.list() : std::vector<Buffer>();
      make(
          l.listing, [&] { c.communicator.scatter(list, to, root, counts, c.options); },
          [&] { return c.communicator.scatter_async(list, to, root, counts, c.options); });
    };
    const auto expected = [&](std::uint64_t i) { return value(c.rank(), i); };
    run_to(out.buffer());
    out.expect("scatter of lists", expected);
    run_to(is_root ? in.part(root) : out.buffer());
    in.expect("scatter in place", value);
  }
}

void gather(const Listed& l) {
  const Case& c = l.c;
  for (int root = 0; root < c.size(); ++root) {
    const bool is_root = c.rank() == root;
    const auto value = [&](int r, std::uint64_t i) { return contribution(r + root, i, c.op); };
    Array in = c.array(l.own);
    in.fill([&](std::uint64_t i) { return value(c.rank(), i); });
    Parts out(c, is_root ? l.counts : std::vector<std::uint64_t>(l.counts.size()), l.lists_here());
    const auto run_from = [&](Buffer from) {
      const auto counts = is_root && out.are_listed() ? std::vector<std::uint64_t>() : l.given();
      if (!out.are_listed()) return c.communicator.gather(from, out.whole(), root, counts, c.options);
      const auto list = is_root ? out.list() : std::vector<Buffer>();
      make(
          l.listing, [&] { c.communicator.gather(from, list, root, counts, c.options); },
          [&] { return c.communicator.gather_async(from, list, root, counts, c.options); });
    };
    run_from(in.buffer());
    out.expect("gather", value);
    out.fill([&](int r, std::uint64_t i) { return r == root ? value(r, i) : 0; });
    run_from(is_root ? out.part(root) : in.buffer());
    out.expect("gather in place", value);
  }
}

void all_to_all(const Listed& l, std::uint64_t count) {
  const Case& c = l.c;
  const bool uneven = l.listing.uneven &&
                      !c.has_limit(schedule::Collective::all_to_all, &algorithms::Algorithm::even_parts_only);
  const auto amount = [&](int from, int to) {
    return uneven ? static_cast<std::uint64_t>((from + 2 * to) % 4) * (count / 7 + 1)
                  : count / static_cast<std::uint64_t>(c.size());
  };
  const auto value = [&](int from, int to, std::uint64_t i) {
    return static_cast<double>((static_cast<std::uint64_t>(from * 5 + to) + i) % 50);
  };
  std::vector<std::uint64_t> sends, receives;
  for (int r = 0; r < c.size(); ++r) {
    sends.push_back(amount(c.rank(), r));
    receives.push_back(amount(r, c.rank()));
  }
  Parts in(c, sends, l.lists_here()), out(c, receives, l.lists_here());
  const auto sent = [&](int r, std::uint64_t i) { return value(c.rank(), r, i); };
  in.fill(sent);
  if (in.are_listed()) {
    const auto from = in.list(), to = out.list();
    make(
        l.listing, [&] { c.communicator.all_to_all(from, to, c.options); },
        [&] { return c.communicator.all_to_all_async(from, to, c.options); });
  } else {
    c.communicator.all_to_all(in.whole(), out.whole(), sends, receives, c.options);
  }
  out.expect("all_to_all", [&](int r, std::uint64_t i) { return value(r, c.rank(), i); });
  in.expect("input of all_to_all", sent);
}

}  // namespace

void run_listed(schedule::Collective collective, const Case& c, std::uint64_t count, const Listing& listing) {
  const Listed listed(c, count, listing);
  switch (collective) {
    case schedule::Collective::reduce_scatter:
      return reduce_scatter(listed);
    case schedule::Collective::all_gather:
      return all_gather(listed);
    case schedule::Collective::scatter:
      return scatter(listed);
    case schedule::Collective::gather:
      return gather(listed);
    case schedule::Collective::all_to_all:
      return all_to_all(listed, count);
    default:
      require(false, "the collective takes no lists");
  }
}

}  // namespace kolo::test
