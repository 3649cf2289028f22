#include "bench/contestants.hpp"

#include <cstring>
#include <set>

namespace kolo::bench {

KoloContestant::KoloContestant(Communicator communicator, std::string algorithm, bool shared_memory)
    : communicator_(std::move(communicator)), algorithm_(std::move(algorithm)), shared_(shared_memory) {}

std::vector<std::string> KoloContestant::algorithms(const Case&) const {
  return {algorithm_};
}

std::byte* KoloContestant::memory(std::size_t bytes) {
  if (!shared_) return plain_memory_.at_least(bytes);
  if (!shared_memory_ || bytes > shared_memory_->size()) shared_memory_.emplace(bytes);
  return shared_memory_->data();
}

void KoloContestant::prepare(const Case& what, const std::string& algorithm, void* in, void* out) {
  what_ = what;
  algorithm_ = algorithm;
  options_.algorithm = algorithm_;
  in_ = {in, what.in_count(rank()), what.dtype};
  out_ = {out, what.out_count(rank()), what.dtype};
}

void KoloContestant::call() {
  const bool in_place = what_.in_place;
  switch (what_.kind) {
    case Kind::all_reduce:
      return in_place ? communicator_.all_reduce(out_, what_.op, options_)
                      : communicator_.all_reduce(in_, out_, what_.op, options_);
    case Kind::reduce_scatter:
      return communicator_.reduce_scatter(in_, out_, what_.op, {}, options_);
    case Kind::all_gather:
      return communicator_.all_gather(in_, out_, {}, options_);
    case Kind::broadcast:
      return communicator_.broadcast(out_, 0, options_);
    case Kind::reduce:
      return communicator_.reduce(in_, out_, 0, what_.op, options_);
    case Kind::scatter:
      return communicator_.scatter(in_, out_, 0, {}, options_);
    case Kind::gather:
      return communicator_.gather(in_, out_, 0, {}, options_);
    case Kind::all_to_all:
      return in_place ? communicator_.all_to_all(out_, options_)
                      : communicator_.all_to_all(in_, out_, {}, {}, options_);
    case Kind::barrier:
      return communicator_.barrier(options_);
    case Kind::send_recv: {
      const int peer = rank() ^ 1;
      if (peer >= size()) return;
      if (rank() % 2 == 0) communicator_.send(in_, peer);
      communicator_.recv(out_, peer);
      if (rank() % 2 == 1) communicator_.send(in_, peer);
      return;
    }
    case Kind::copy:
      return;
  }
}

std::string KoloContestant::algorithm_used() {
  if (what_.kind == Kind::send_recv || what_.kind == Kind::copy) return "message";
  const Work work = start();
  work.wait();
  return work.algorithm();
}

Work KoloContestant::start() {
  const bool in_place = what_.in_place;
  switch (what_.kind) {
    case Kind::all_reduce:
      return in_place ? communicator_.all_reduce_async(out_, what_.op, options_)
                      : communicator_.all_reduce_async(in_, out_, what_.op, options_);
    case Kind::reduce_scatter:
      return communicator_.reduce_scatter_async(in_, out_, what_.op, {}, options_);
    case Kind::all_gather:
      return communicator_.all_gather_async(in_, out_, {}, options_);
    case Kind::broadcast:
      return communicator_.broadcast_async(out_, 0, options_);
    case Kind::reduce:
      return communicator_.reduce_async(in_, out_, 0, what_.op, options_);
    case Kind::scatter:
      return communicator_.scatter_async(in_, out_, 0, {}, options_);
    case Kind::gather:
      return communicator_.gather_async(in_, out_, 0, {}, options_);
    case Kind::all_to_all:
      return in_place ? communicator_.all_to_all_async(out_, options_)
                      : communicator_.all_to_all_async(in_, out_, {}, {}, options_);
    case Kind::barrier:
      return communicator_.barrier_async(options_);
    case Kind::send_recv:
    case Kind::copy:
      break;
  }
  return {};
}

void KoloContestant::share(void* data, std::size_t bytes) {
  communicator_.broadcast(Buffer(data, bytes, DType::uint8), 0);
}

void KoloContestant::collect(const double* mine, std::size_t count, double* all) {
  const std::size_t total = rank() == 0 ? count * static_cast<std::size_t>(size()) : 0;
  communicator_.gather(ConstBuffer(mine, count, DType::float64), Buffer(all, total, DType::float64), 0);
}

std::string KoloContestant::transports() const {
  std::set<std::string> names;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) names.insert(communicator_.transport_to(peer));
  }
  if (names.empty()) return "self";
  std::string joined;
  for (const auto& name : names) joined += (joined.empty() ? "" : "+") + name;
  return joined;
}

void CopyContestant::prepare(const Case& what, const std::string&, void* in, void* out) {
  in_ = in;
  out_ = out;
  bytes_ = what.bytes();
}

void CopyContestant::call() {
  std::memcpy(out_, in_, bytes_);
}

}  // namespace kolo::bench
