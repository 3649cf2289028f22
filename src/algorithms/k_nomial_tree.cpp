#include "algorithms/k_nomial_tree.hpp"

#include <utility>

#include "schedule/builder.hpp"

namespace kolo::algorithms {

KNomialTree::KNomialTree(const ScheduleSpec& spec, int radix) {
  const std::int64_t size = spec.size;
  const std::int64_t v = (spec.rank - spec.root + size) % size;
  const auto rank_of = [&](std::int64_t of) { return static_cast<int>((of + spec.root) % size); };
  for (std::int64_t place = 1; place < size; place *= radix) {
    if (const std::int64_t digit = v / place % radix; digit != 0) {
      parent = rank_of(v - digit * place);
      break;
    }
    for (int digit = 1; digit < radix && v + digit * place < size; ++digit) {
      children.push_back(rank_of(v + digit * place));
    }
  }
}

schedule::Schedule k_nomial_reduce(const ScheduleSpec& spec, int radix) {
  const KNomialTree tree(spec, radix);
  const bool is_root = spec.rank == spec.root;
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 1,
                                    is_root || tree.children.empty() ? 0 : 1);
  if (spec.size == 1) builder.copy(schedule::output(0), schedule::input(0));
  const schedule::ChunkRange sum = is_root ? schedule::output(0) : schedule::scratch(0, schedule::input(0));
  schedule::ChunkRange operand = schedule::input(0);
  // The smallest subtree first: it is ready first.
  for (const int child : tree.children) {
    builder.recv_reduce(child, sum, operand, is_root && child == tree.children.back());
    operand = sum;
  }
  if (!is_root) builder.send(tree.parent, operand);
  return std::move(builder).finish();
}

schedule::Schedule k_nomial_broadcast(const ScheduleSpec& spec, int radix) {
  schedule::ScheduleBuilder builder(spec.collective, spec.rank, spec.size, spec.root, 1);
  const KNomialTree tree(spec, radix);
  if (spec.rank != spec.root) builder.recv(tree.parent, schedule::output(0));
  // The largest subtree first: it takes longest.
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) {
    builder.send(*child, schedule::output(0));
  }
  return std::move(builder).finish();
}

std::uint64_t k_nomial_children(std::uint64_t ranks, int radix) {
  const auto base = static_cast<std::uint64_t>(radix);
  std::uint64_t children = 0;
  std::uint64_t last = ranks - 1;
  for (; last >= base; last /= base) children += base - 1;
  return children + last;
}

int radix_of(const ScheduleSpec& spec) {
  return spec.arguments.number("radix", 4);
}

std::string radix_objection(const ScheduleSpec& spec) {
  return radix_of(spec) >= 2 ? "" : "needs a radix of at least 2";
}

}  // namespace kolo::algorithms
