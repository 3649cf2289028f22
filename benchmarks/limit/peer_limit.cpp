// The machine's limit as a peer of kolo bench: forks its ranks, which run the measuring loop of all peers.
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "forks.hpp"
#include "limit.hpp"
#include "peer.hpp"

namespace kolo::bench {
namespace {

/// A mapping that all ranks inherit at the same address: flags, messages, and for each rank its data and a
/// desk for untimed exchanges. Untouched pages take no memory.
class Common {
 public:
  explicit Common(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {
    messages_at_ = ranks_ * sizeof(limit::Flag);
    desks_at_ = round_up(messages_at_ + limit::Exchange::size_for(ranks) * sizeof(limit::Message));
    data_at_ = desks_at_ + ranks_ * kDesk;
    const std::size_t bytes = data_at_ + ranks_ * kData;
    // Larger by a huge page, for the alignment.
    void* const at = ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error(fmt::format("mmap: {}", std::strerror(errno)));
    base_ = static_cast<std::byte*>(at);
    base_ += round_up(reinterpret_cast<std::uintptr_t>(base_)) - reinterpret_cast<std::uintptr_t>(base_);
    ::madvise(base_ + data_at_, ranks_ * kData, MADV_HUGEPAGE);  // may fail
  }

  std::span<limit::Flag> flags() const { return {reinterpret_cast<limit::Flag*>(base_), ranks_}; }
  std::span<limit::Message> messages() const {
    return {reinterpret_cast<limit::Message*>(base_ + messages_at_),
            limit::Exchange::size_for(static_cast<int>(ranks_))};
  }
  template <typename T>
  T* desk(int rank, std::size_t count) const {
    return reinterpret_cast<T*>(
        room(desks_at_ + static_cast<std::size_t>(rank) * kDesk, count * sizeof(T), kDesk));
  }
  std::byte* data(int rank, std::size_t bytes) const {
    return room(data_at_ + static_cast<std::size_t>(rank) * kData, bytes, kData);
  }

 private:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  static constexpr std::size_t kDesk = std::size_t{64} << 20;
  // No power of two: AMD's first-level cache finds lines by a hash without the address' high bits, and holds
  // one line of a hash. If ranks' addresses differ in those bits alone, sums are 6 times slower.
  static constexpr std::size_t kData = (std::size_t{16} << 30) + kHugePage;

  static std::size_t round_up(std::size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }
  std::byte* room(std::size_t at, std::size_t bytes, std::size_t most) const {
    if (bytes > most) throw std::runtime_error(fmt::format("{} bytes: there is room for {}", bytes, most));
    return base_ + at;
  }

  std::size_t ranks_, messages_at_, desks_at_, data_at_;
  std::byte* base_ = nullptr;
};

std::vector<int> allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

// Binds to a core, because the system may leave two ranks on one core for long.
void stay_on(int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  ::sched_setaffinity(0, sizeof(only), &only);
}

class LimitContestant : public Contestant {
 public:
  /// `yields`: ranks share cores.
  LimitContestant(const Common& common, int rank, int size, bool yields)
      : Contestant(rank, size),
        common_(common),
        barrier_(common.flags(), rank, yields),
        exchange_(common.messages(), size, rank, yields) {}

  /// If there are two, the faster one is the limit.
  std::vector<std::string> algorithms(const Case& what) const override {
    const bool knows_how = !is_reducing(what.kind) || what.op == ReduceOp::sum;
    if (what.kind == Kind::barrier) return {"flags"};
    if (what.dtype != DType::float32 || !knows_how || what.count == 0) return {};
    switch (what.kind) {
      case Kind::all_reduce:
        if (what.tensors > 1) return {"slices", "tensors"};
        if (what.count <= limit::Exchange::kMostValues) return {"slices", "exchange"};
        return {"slices"};
      case Kind::reduce_scatter:
        return {"slices"};
      case Kind::all_gather:
      case Kind::broadcast:
        return {"slices", "streaming"};
      default:
        return {};
    }
  }

  std::byte* memory(std::size_t bytes) override { return common_.data(rank(), bytes); }

  void prepare(const Case& what, const std::string& algorithm, std::span<const Piece> pieces) override {
    what_ = what;
    exchanges_ = algorithm == "exchange";
    streams_ = algorithm == "streaming";
    whole_ = algorithm == "tensors";
    std::copy(pieces.begin(), pieces.end(), common_.desk<Piece>(rank(), pieces.size()));
    barrier_.wait();
    tensors_.assign(pieces.size(), {});
    for (int r = 0; r < size(); ++r) {
      const Piece* const theirs = common_.desk<Piece>(r, pieces.size());
      for (std::size_t t = 0; t < pieces.size(); ++t) {
        tensors_[t].in.push_back(static_cast<const float*>(theirs[t].in));
        tensors_[t].out.push_back(static_cast<float*>(theirs[t].out));
      }
    }
    barrier_.wait();
  }

  void call(std::size_t begin, std::size_t end) override {
    const auto me = static_cast<std::size_t>(rank());
    if (exchanges_) return exchange_.all_reduce(tensors_[begin].in[me], tensors_[begin].out[me], what_.count);
    barrier_.wait();
    if (what_.kind == Kind::barrier) return;
    if (whole_) {
      const std::size_t ranks = static_cast<std::size_t>(size()), count = end - begin;
      for (std::size_t t = begin + count * me / ranks; t < begin + count * (me + 1) / ranks; ++t)
        limit::sum(tensors_[t].in, tensors_[t].out, 0, what_.count);
    } else {
      for (std::size_t t = begin; t < end; ++t) do_my_part(tensors_[t]);
    }
    barrier_.wait();
  }

  void barrier() override { barrier_.wait(); }
  void share(void* data, std::size_t bytes) override {
    if (rank() == 0) std::memcpy(common_.desk<std::byte>(0, bytes), data, bytes);
    barrier_.wait();
    if (rank() != 0) std::memcpy(data, common_.desk<std::byte>(0, bytes), bytes);
    barrier_.wait();
  }
  void collect(const double* mine, std::size_t count, double* all) override {
    std::copy_n(mine, count, common_.desk<double>(rank(), count));
    barrier_.wait();
    for (int r = 0; rank() == 0 && r < size(); ++r) {
      all = std::copy_n(common_.desk<double>(r, count), count, all);
    }
    barrier_.wait();
  }

 private:
  /// Addresses of one tensor on all ranks.
  struct Tensor {
    std::vector<const float*> in;
    std::vector<float*> out;
  };

  void do_my_part(const Tensor& tensor) const {
    const auto me = static_cast<std::size_t>(rank()), ranks = static_cast<std::size_t>(size());
    const std::size_t count = what_.count;
    // Slices begin at cache lines.
    const std::size_t line = 64 / sizeof(float), lines = (count + line - 1) / line;
    const std::size_t begin = std::min(count, lines * me / ranks * line);
    const std::size_t end = std::min(count, lines * (me + 1) / ranks * line);
    switch (what_.kind) {
      case Kind::all_reduce:
        return limit::sum(tensor.in, tensor.out, begin, end);
      case Kind::reduce_scatter: {
        // Shifted, so that part `me` of the sources goes to the target's begin.
        float* const target = tensor.out[me] - me * count;
        return limit::sum(tensor.in, {&target, 1}, me * count, (me + 1) * count);
      }
      case Kind::broadcast:
        return copy(tensor.out[0], std::span(tensor.out).subspan(1), begin, end);
      case Kind::all_gather:
        for (std::size_t r = 0; r < ranks; ++r) {
          float* const target = tensor.out[me] + r * count;
          if (target != tensor.in[r]) copy(tensor.in[r], {&target, 1}, 0, count);
        }
        return;
      default:
        return;
    }
  }

  void copy(const float* source, std::span<float* const> targets, std::size_t begin, std::size_t end) const {
    if (streams_) return limit::stream(source, targets, begin, end);
    limit::sum({&source, 1}, targets, begin, end);
  }

  const Common& common_;
  limit::Barrier barrier_;
  limit::Exchange exchange_;
  Case what_;
  bool exchanges_ = false;
  bool streams_ = false;
  bool whole_ = false;  // each rank sums whole tensors for all ranks, and not its slice of each
  std::vector<Tensor> tensors_;
};

int run_rank(const Common& common, int rank, int size, const char* socket) {
  const std::vector<int> cores = allowed_cores();
  const bool all_have_cores = static_cast<std::size_t>(size) <= cores.size();
  if (all_have_cores) stay_on(cores[static_cast<std::size_t>(rank)]);
  LimitContestant contestant(common, rank, size, !all_have_cores);
  return serve(contestant, socket, "plain loops");
}

/// `arguments`: the socket of kolo bench, and the number of ranks.
int run_ranks(std::span<char* const> arguments) {
  const int size = std::atoi(arguments[1]);
  const Common common(size);
  return fork_ranks(size, [&](int rank) { return run_rank(common, rank, size, arguments[0]); });
}

}  // namespace
}  // namespace kolo::bench

int main(int argc, char** argv) {
  return kolo::bench::peer_main(argc, argv, 2, "limit", kolo::bench::run_ranks);
}
