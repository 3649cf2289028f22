#include "execution.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace kolo::test::memory {
namespace {

bool is_acquire(const Event& event) {
  return event.order == Order::acquire || event.order == Order::acq_rel || event.order == Order::seq_cst;
}
bool is_release(const Event& event) {
  return event.order == Order::release || event.order == Order::acq_rel || event.order == Order::seq_cst;
}
bool is_fence(const Event& event) {
  return event.kind == Kind::fence;
}

constexpr const char* kOrders[] = {"plain", "relaxed", "acquire", "release", "acq_rel", "seq_cst"};

}  // namespace

Execution::Execution(const std::vector<int>& initial_values) {
  for (const int value : initial_values) {
    writes_.push_back({events_.size()});
    events_.push_back({.kind = Kind::write, .location = events_.size(), .written = value});
  }
}

void Execution::append(const Event& event, std::size_t after) {
  if (events_.size() == kMaxEvents) throw std::length_error("a model with too many events");
  if (event.writes()) {
    std::vector<std::size_t>& writes = writes_[event.location];
    writes.insert(std::find(writes.begin(), writes.end(), after) + 1, events_.size());
  }
  events_.push_back(event);
}

template <typename Predicate>
Events Execution::where(Predicate predicate) const {
  Events found = 0;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    if (predicate(events_[i])) found |= just(i);
  }
  return found;
}

Relation Execution::reads_from() const {
  Relation result(events_.size());
  for (std::size_t i = 0; i < events_.size(); ++i) {
    if (events_[i].reads()) result.add(events_[i].source, i);
  }
  return result;
}

Relation Execution::program_order() const {
  Relation result(events_.size());
  for (std::size_t i = 0; i < events_.size(); ++i) {
    for (std::size_t j = i + 1; j < events_.size(); ++j) {
      const bool is_first = events_[i].thread == kInitially && events_[j].thread != kInitially;
      if (is_first || events_[i].thread == events_[j].thread) result.add(i, j);
    }
  }
  return result;
}

Relation Execution::happens_before() const {
  const Relation order = program_order();
  const Relation from = reads_from();
  const Events all = ~Events{0};
  const Events atomic_writes = where([](const Event& e) { return e.writes() && e.order != Order::plain; });
  const Events atomic_reads = where([](const Event& e) { return e.reads() && e.order != Order::plain; });
  const Events updates = where([](const Event& e) { return e.kind == Kind::update; });
  // A release is a write, or a fence before a write. Only updates continue its release sequence.
  Relation releases =
      order.between(where([](const Event& e) { return is_fence(e) && is_release(e); }), atomic_writes);
  Relation acquires =
      order.between(atomic_reads, where([](const Event& e) { return is_fence(e) && is_acquire(e); }));
  const Relation same = Relation(events_.size()).or_same();
  const Events release_writes = atomic_writes & where(is_release);
  const Events acquire_reads = atomic_reads & where(is_acquire);
  releases |= same.between(release_writes, release_writes);
  acquires |= same.between(acquire_reads, acquire_reads);
  const Relation sequence = from.between(all, updates).closure().or_same();
  return (order | releases.then(sequence).then(from).then(acquires)).closure();
}

bool Execution::is_allowed() const {
  const Relation happens = happens_before();
  const Relation from = reads_from();
  Relation order_of_writes(events_.size());
  for (const std::vector<std::size_t>& writes : writes_) {
    for (std::size_t i = 0; i < writes.size(); ++i) {
      for (std::size_t j = i + 1; j < writes.size(); ++j) order_of_writes.add(writes[i], writes[j]);
    }
  }
  const Relation from_reads = from.inverse().then(order_of_writes).but_same();
  const Relation coherence = (from | order_of_writes | from_reads).closure();
  // Coherence: no thread sees the writes of a location out of order.
  if (!happens.is_irreflexive() || !happens.then(coherence).is_irreflexive()) return false;
  // Atomicity: no write comes between the read and the write of an update.
  if (!from_reads.then(order_of_writes).is_irreflexive()) return false;
  return has_total_order(happens, coherence, from_reads, order_of_writes);
}

/// Whether the sequentially consistent events have a total order. The relations have RC11's names: scb,
/// psc_base, psc_F.
bool Execution::has_total_order(const Relation& happens, const Relation& coherence,
                                const Relation& from_reads, const Relation& order_of_writes) const {
  const Events total = where([](const Event& e) { return e.order == Order::seq_cst; });
  const Events fences = total & where(is_fence);
  // No event happens after the last one. So without fences, the last event matters only if it is sequentially
  // consistent.
  if (fences == 0 && events_.back().order != Order::seq_cst) return true;
  const Events all = ~Events{0};
  const Relation order = program_order();
  Relation elsewhere(events_.size());  // program order between different locations
  Relation here(events_.size());       // happens before, at one location
  for (std::size_t i = 0; i < events_.size(); ++i) {
    for (std::size_t j = 0; j < events_.size(); ++j) {
      const bool same = events_[i].location == events_[j].location && !is_fence(events_[i]);
      if (!same && order.has(i, j)) elsewhere.add(i, j);
      if (same && happens.has(i, j)) here.add(i, j);
    }
  }
  const Relation scb = order | elsewhere.then(happens).then(elsewhere) | here | order_of_writes | from_reads;
  const Relation same = Relation(events_.size()).or_same();
  const Relation first = same.between(total, total) | happens.or_same().between(fences, all);
  const Relation last = same.between(total, total) | happens.or_same().between(all, fences);
  const Relation psc_base = first.then(scb).then(last);
  const Relation psc_f = (happens | happens.then(coherence).then(happens)).between(fences, fences);
  return (psc_base | psc_f).is_acyclic();
}

bool Execution::is_racing() const {
  const std::size_t last = events_.size() - 1;
  const Event& event = events_[last];
  const Events conflicts = where([&](const Event& other) {
    return other.location == event.location && (other.writes() || event.writes()) &&
           (other.order == Order::plain || event.order == Order::plain);
  });
  if (is_fence(event) || conflicts == 0) return false;
  const Relation before = happens_before().inverse();
  return (conflicts & ~just(last) & ~before.row(last)) != 0;
}

std::string Execution::key() const {
  std::vector<std::string> names(events_.size());  // two letters each: thread, and index in the thread
  std::map<int, char> count;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const int thread = events_[i].thread;
    names[i] = {static_cast<char>('a' + thread - kInitially), static_cast<char>('0' + count[thread]++)};
  }
  std::map<int, std::string> threads;
  for (const Event& event : events_) threads[event.thread] += event.reads() ? names[event.source] : "--";
  std::string key;
  for (const auto& [thread, sources] : threads) key += sources + "|";
  for (const std::vector<std::size_t>& writes : writes_) {
    for (const std::size_t write : writes) key += names[write];
    key += "|";
  }
  return key;
}

std::string Execution::describe(const std::vector<std::string>& threads,
                                const std::vector<std::string>& locations) const {
  std::string text;
  for (const Event& event : events_) {
    if (event.thread == kInitially) continue;
    text += "  " + threads[static_cast<std::size_t>(event.thread)] + ": ";
    if (is_fence(event)) text += "fence";
    if (event.reads()) text += "reads " + locations[event.location] + " = " + std::to_string(event.read);
    if (event.kind == Kind::update) text += ", ";
    if (event.writes()) text += "writes " + locations[event.location] + " = " + std::to_string(event.written);
    text += std::string(" (") + kOrders[static_cast<std::size_t>(event.order)] + ")\n";
  }
  return text;
}

}  // namespace kolo::test::memory
