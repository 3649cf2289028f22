#include "support/cases.hpp"

namespace kolo::test {
namespace {

void all_reduce(const Case& c, std::uint64_t count) {
  Array in = c.array(count);
  Array out = c.array(count);
  in.fill([&](auto i) { return c.own(i); });
  c.communicator.all_reduce(in.buffer(), out.buffer(), c.op, c.options);
  out.expect("all_reduce", [&](auto i) { return c.all(i); });
  in.expect("input of all_reduce", [&](auto i) { return c.own(i); });
  c.communicator.all_reduce(in.buffer(), c.op, c.options);
  in.expect("all_reduce in place", [&](auto i) { return c.all(i); });
}

void scan(const Case& c, std::uint64_t count) {
  if (c.op == ReduceOp::average) return;  // a prefix has none
  const auto prefix = [&](std::uint64_t i) { return c.factor * reduced(c.rank() + 1, i, c.op, c.dtype); };
  Array in = c.array(count);
  Array out = c.array(count);
  in.fill([&](auto i) { return c.own(i); });
  c.communicator.scan(in.buffer(), out.buffer(), c.op, c.options);
  out.expect("scan", prefix);
  in.expect("input of scan", [&](auto i) { return c.own(i); });
  c.communicator.scan(in.buffer(), in.buffer(), c.op, c.options);
  in.expect("scan in place", prefix);
}

void reduce_scatter(const Case& c, std::uint64_t count) {
  const auto parts = c.parts(count);
  const std::uint64_t begin = Case::before(parts, c.rank());
  const std::uint64_t own = parts[static_cast<std::size_t>(c.rank())];
  const std::uint64_t total = Case::before(parts, c.size());
  Array in = c.array(total);
  Array out = c.array(own);
  in.fill([&](auto i) { return c.own(i); });
  c.communicator.reduce_scatter(in.buffer(), out.buffer(), c.op, parts, c.options);
  out.expect("reduce_scatter", [&](auto i) { return c.all(begin + i); });
  in.expect("input of reduce_scatter", [&](auto i) { return c.own(i); });
  c.communicator.reduce_scatter(in.buffer(), in.part(begin, own), c.op, parts, c.options);
  in.expect("reduce_scatter in place",
            [&](auto i) { return i >= begin && i < begin + own ? c.all(i) : c.own(i); });
}

void all_gather(const Case& c, std::uint64_t count) {
  const auto parts = c.parts(count);
  const std::uint64_t begin = Case::before(parts, c.rank());
  const std::uint64_t own = parts[static_cast<std::size_t>(c.rank())];
  const auto value = [&](std::uint64_t i) { return contribution(3, i, c.op); };
  Array in = c.array(own);
  Array out = c.array(Case::before(parts, c.size()));
  in.fill([&](auto i) { return value(begin + i); });
  c.communicator.all_gather(in.buffer(), out.buffer(), parts, c.options);
  out.expect("all_gather", value);
  out.fill([](auto) { return 0; });
  for (std::uint64_t i = 0; i < own; ++i) out.set(begin + i, value(begin + i));
  c.communicator.all_gather(out.part(begin, own), out.buffer(), parts, c.options);
  out.expect("all_gather in place", value);
}

void broadcast(const Case& c, std::uint64_t count) {
  for (int root = 0; root < c.size(); ++root) {
    Array data = c.array(count);
    data.fill([&](auto i) { return c.own(i); });
    c.communicator.broadcast(data.buffer(), root, c.options);
    data.expect("broadcast", [&](auto i) { return contribution(root, i, c.op); });
  }
}

void reduce(const Case& c, std::uint64_t count) {
  for (int root = 0; root < c.size(); ++root) {
    Array in = c.array(count);
    Array out = c.array(count);
    in.fill([&](auto i) { return c.own(i); });
    out.fill([](auto) { return 1; });
    c.communicator.reduce(in.buffer(), out.buffer(), root, c.op, c.options);
    out.expect("reduce", [&](auto i) { return c.rank() == root ? c.all(i) : 1; });
    in.expect("input of reduce", [&](auto i) { return c.own(i); });
    c.communicator.reduce(in.buffer(), in.buffer(), root, c.op, c.options);
    in.expect("reduce in place", [&](auto i) { return c.rank() == root ? c.all(i) : c.own(i); });
  }
}

void scatter(const Case& c, std::uint64_t count) {
  const bool uneven = !c.has_limit(schedule::Collective::scatter, &algorithms::Algorithm::even_parts_only);
  const auto parts = c.parts(count, uneven);
  const auto counts = uneven ? parts : std::vector<std::uint64_t>();
  const std::uint64_t begin = Case::before(parts, c.rank());
  const std::uint64_t own = parts[static_cast<std::size_t>(c.rank())];
  for (int root = 0; root < c.size(); ++root) {
    Array in = c.array(c.rank() == root ? Case::before(parts, c.size()) : 0);
    Array out = c.array(own);
    in.fill([&](auto i) { return contribution(root, i, c.op); });
    c.communicator.scatter(in.buffer(), out.buffer(), root, counts, c.options);
    out.expect("scatter", [&](auto i) { return contribution(root, begin + i, c.op); });
    if (c.rank() == root) {
      c.communicator.scatter(in.buffer(), in.part(begin, own), root, counts, c.options);
      in.expect("scatter in place", [&](auto i) { return contribution(root, i, c.op); });
    } else {
      c.communicator.scatter(ConstBuffer(), out.buffer(), root, counts, c.options);
    }
  }
}

void gather(const Case& c, std::uint64_t count) {
  const bool uneven = !c.has_limit(schedule::Collective::gather, &algorithms::Algorithm::even_parts_only);
  const auto parts = c.parts(count, uneven);
  const auto counts = uneven ? parts : std::vector<std::uint64_t>();
  const std::uint64_t begin = Case::before(parts, c.rank());
  const std::uint64_t own = parts[static_cast<std::size_t>(c.rank())];
  for (int root = 0; root < c.size(); ++root) {
    const auto value = [&](std::uint64_t i) { return contribution(root + 5, i, c.op); };
    Array in = c.array(own);
    Array out = c.array(c.rank() == root ? Case::before(parts, c.size()) : 0);
    in.fill([&](auto i) { return value(begin + i); });
    c.communicator.gather(in.buffer(), out.buffer(), root, counts, c.options);
    out.expect("gather", value);
    if (c.rank() == root) {
      out.fill([](auto) { return 0; });
      for (std::uint64_t i = 0; i < own; ++i) out.set(begin + i, value(begin + i));
      c.communicator.gather(out.part(begin, own), out.buffer(), root, counts, c.options);
      out.expect("gather in place", value);
    } else {
      c.communicator.gather(in.buffer(), Buffer(), root, counts, c.options);
    }
  }
}

void all_to_all(const Case& c, std::uint64_t count) {
  const auto value = [](int from, int to, std::uint64_t i) {
    return static_cast<double>((static_cast<std::uint64_t>(from * 5 + to) + i) % 50);
  };
  const auto size = static_cast<std::uint64_t>(c.size());
  const std::uint64_t part = count / size;
  Array data = c.array(part * size);
  Array out = c.array(part * size);
  data.fill([&](auto i) {
    return value(c.rank(), static_cast<int>(i / std::max<std::uint64_t>(part, 1)),
                 i % std::max<std::uint64_t>(part, 1));
  });
  const auto expected = [&](std::uint64_t i) {
    return value(static_cast<int>(i / std::max<std::uint64_t>(part, 1)), c.rank(),
                 i % std::max<std::uint64_t>(part, 1));
  };
  c.communicator.all_to_all(data.buffer(), out.buffer(), {}, {}, c.options);
  out.expect("all_to_all", expected);
  if (!c.has_limit(schedule::Collective::all_to_all, &algorithms::Algorithm::out_of_place_only)) {
    c.communicator.all_to_all(data.buffer(), c.options);
    data.expect("all_to_all in place", expected);
  }
  if (c.has_limit(schedule::Collective::all_to_all, &algorithms::Algorithm::even_parts_only)) return;

  // Rank a sends (a + 2 b) % 4 times count / 7 + 1 elements to rank b.
  const auto amount = [&](int from, int to) {
    return static_cast<std::uint64_t>((from + 2 * to) % 4) * (count / 7 + 1);
  };
  std::vector<std::uint64_t> sends;
  std::vector<std::uint64_t> receives;
  for (int r = 0; r < c.size(); ++r) {
    sends.push_back(amount(c.rank(), r));
    receives.push_back(amount(r, c.rank()));
  }
  Array from = c.array(Case::before(sends, c.size()));
  Array to = c.array(Case::before(receives, c.size()));
  for (int r = 0; r < c.size(); ++r) {
    for (std::uint64_t i = 0; i < sends[static_cast<std::size_t>(r)]; ++i)
      from.set(Case::before(sends, r) + i, value(c.rank(), r, i));
  }
  c.communicator.all_to_all(from.buffer(), to.buffer(), sends, receives, c.options);
  int source = 0;
  to.expect("all_to_all uneven", [&](auto i) {
    while (i >= Case::before(receives, source + 1)) ++source;
    return value(source, c.rank(), i - Case::before(receives, source));
  });
}

}  // namespace

void run(schedule::Collective collective, const Case& c, std::uint64_t count) {
  switch (collective) {
    case schedule::Collective::all_reduce:
      return all_reduce(c, count);
    case schedule::Collective::reduce_scatter:
      return reduce_scatter(c, count);
    case schedule::Collective::all_gather:
      return all_gather(c, count);
    case schedule::Collective::broadcast:
      return broadcast(c, count);
    case schedule::Collective::reduce:
      return reduce(c, count);
    case schedule::Collective::scatter:
      return scatter(c, count);
    case schedule::Collective::gather:
      return gather(c, count);
    case schedule::Collective::all_to_all:
      return all_to_all(c, count);
    case schedule::Collective::scan:
      return scan(c, count);
    case schedule::Collective::barrier:
      return c.communicator.barrier(c.options);
    case schedule::Collective::send_recv:
      return;
  }
}

}  // namespace kolo::test
