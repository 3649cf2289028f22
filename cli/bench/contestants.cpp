#include "bench/contestants.hpp"

#include <set>

namespace kolo::bench {
namespace {

constexpr std::size_t kCacheLine = 64;

/// Inverts the bits, because the compiler would remove stores that change nothing.
void rewrite_lines(void* data, std::size_t lines) {
  using Word = std::uint64_t __attribute__((vector_size(16), may_alias));
  auto* words = static_cast<Word*>(data);
  for (std::size_t i = 0; i < lines; ++i, words += 4) {
    words[0] = ~words[0];
    words[1] = ~words[1];
    words[2] = ~words[2];
    words[3] = ~words[3];
  }
}

#ifdef __x86_64__
/// With 32-byte words: in caches, 16-byte words take twice the time.
[[gnu::target("avx2")]] void rewrite_lines_avx2(void* data, std::size_t lines) {
  using Word = std::uint64_t __attribute__((vector_size(32), may_alias));
  auto* words = static_cast<Word*>(data);
  for (std::size_t i = 0; i < lines; ++i, words += 2) {
    words[0] = ~words[0];
    words[1] = ~words[1];
  }
}
#endif

/// Rewrites whole cache lines; every piece consists of them.
void rewrite(void* data, std::size_t bytes) {
  const std::size_t lines = (bytes + kCacheLine - 1) / kCacheLine;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") != 0) return rewrite_lines_avx2(data, lines);
#endif
  rewrite_lines(data, lines);
}

}  // namespace

KoloContestant::KoloContestant(Communicator communicator, std::string algorithm, bool shared_memory,
                               std::optional<int> gpu)
    : Contestant(communicator.rank(), communicator.size()),
      communicator_(std::move(communicator)),
      algorithm_(std::move(algorithm)),
      shared_(shared_memory) {
  if (gpu) gpu_memory_.emplace(*gpu);
}

std::vector<std::string> KoloContestant::algorithms(const Case&) const {
  return {algorithm_};
}

std::byte* KoloContestant::memory(std::size_t bytes) {
  if (gpu_memory_) return gpu_memory_->of_bytes(bytes);
  if (!shared_) return plain_memory_.at_least(bytes);
  if (!shared_memory_ || bytes > shared_memory_->size()) shared_memory_.emplace(bytes);
  return shared_memory_->data();
}

void KoloContestant::prepare(const Case& what, const std::string& algorithm, std::span<const Piece> pieces) {
  what_ = what;
  algorithm_ = algorithm;
  options_.algorithm = algorithm_;
  options_.wire = what.wire;
  buffers_.clear();
  const Device device = gpu_memory_ ? gpu_memory_->device() : Device();
  for (auto [in, out] : pieces) {
    if (gpu_memory_) {
      in = gpu_memory_->on_gpu(in);
      out = gpu_memory_->on_gpu(out);
    }
    buffers_.push_back(
        {{in, what.in_count(rank()), what.dtype, device}, {out, what.out_count(rank()), what.dtype, device}});
  }
  works_.resize(buffers_.size());
}

void KoloContestant::call(std::size_t begin, std::size_t end) {
  if (what_.rewrites && gpu_memory_) return copy(true, true);
  if (what_.rewrites) {
    for (std::size_t i = begin; i < end; ++i) rewrite(buffers_[i].out.data, what_.bytes());
    return;
  }
  if (end - begin == 1) return call(buffers_[begin]);
  for (std::size_t i = begin; i < end; ++i) works_[i] = start(buffers_[i]);
  for (std::size_t i = begin; i < end; ++i) works_[i].wait();
}

void KoloContestant::call(const Buffers& buffers) {
  const auto& [in, out] = buffers;
  const bool in_place = what_.in_place;
  switch (what_.kind) {
    case Kind::all_reduce:
      return in_place ? communicator_.all_reduce(out, what_.op, options_)
                      : communicator_.all_reduce(in, out, what_.op, options_);
    case Kind::reduce_scatter:
      return communicator_.reduce_scatter(in, out, what_.op, {}, options_);
    case Kind::all_gather:
      return communicator_.all_gather(in, out, {}, options_);
    case Kind::broadcast:
      return communicator_.broadcast(out, 0, options_);
    case Kind::reduce:
      return communicator_.reduce(in, out, 0, what_.op, options_);
    case Kind::scatter:
      return communicator_.scatter(in, out, 0, {}, options_);
    case Kind::gather:
      return communicator_.gather(in, out, 0, {}, options_);
    case Kind::all_to_all:
      return in_place ? communicator_.all_to_all(out, options_)
                      : communicator_.all_to_all(in, out, {}, {}, options_);
    case Kind::scan:
      return communicator_.scan(in, out, what_.op, options_);
    case Kind::barrier:
      return communicator_.barrier(options_);
    case Kind::send_recv: {
      const int peer = rank() ^ 1;
      if (peer >= size()) return;
      if (rank() % 2 == 0) communicator_.send(in, peer);
      communicator_.recv(out, peer);
      if (rank() % 2 == 1) communicator_.send(in, peer);
      return;
    }
  }
}

std::string KoloContestant::algorithm_used() {
  if (what_.kind == Kind::send_recv) return "message";
  const Work work = start(buffers_[0]);
  work.wait();
  return work.algorithm();
}

Work KoloContestant::start(const Buffers& buffers) {
  const auto& [in, out] = buffers;
  const bool in_place = what_.in_place;
  switch (what_.kind) {
    case Kind::all_reduce:
      return in_place ? communicator_.all_reduce_async(out, what_.op, options_)
                      : communicator_.all_reduce_async(in, out, what_.op, options_);
    case Kind::reduce_scatter:
      return communicator_.reduce_scatter_async(in, out, what_.op, {}, options_);
    case Kind::all_gather:
      return communicator_.all_gather_async(in, out, {}, options_);
    case Kind::broadcast:
      return communicator_.broadcast_async(out, 0, options_);
    case Kind::reduce:
      return communicator_.reduce_async(in, out, 0, what_.op, options_);
    case Kind::scatter:
      return communicator_.scatter_async(in, out, 0, {}, options_);
    case Kind::gather:
      return communicator_.gather_async(in, out, 0, {}, options_);
    case Kind::all_to_all:
      return in_place ? communicator_.all_to_all_async(out, options_)
                      : communicator_.all_to_all_async(in, out, {}, {}, options_);
    case Kind::scan:
      return communicator_.scan_async(in, out, what_.op, options_);
    case Kind::barrier:
      return communicator_.barrier_async(options_);
    case Kind::send_recv:
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

}  // namespace kolo::bench
