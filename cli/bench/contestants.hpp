// The contestant (backend) of this program: kolo.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/contestant.hpp"
#include "bench/gpu_memory.hpp"
#include "bench/memory.hpp"
#include "kolo/kolo.hpp"

namespace kolo::bench {

/// kolo over one communicator. An empty algorithm leaves the choice to kolo. If the case rewrites, each rank
/// inverts its own memory in place instead: the least loads and stores of an all-reduce in place. On a GPU it
/// is copied to the host and back.
class KoloContestant : public Contestant {
 public:
  /// `gpu`: the number of the one whose memory the calls get; empty: the host's.
  KoloContestant(Communicator communicator, std::string algorithm, bool shared_memory,
                 std::optional<int> gpu = {});

  std::vector<std::string> algorithms(const Case& what) const override;
  std::byte* memory(std::size_t bytes) override;
  void after_writing() override { copy(false, true); }
  void before_reading() override { copy(true, false); }
  void prepare(const Case& what, const std::string& algorithm, std::span<const Piece> pieces) override;
  void call(std::size_t begin, std::size_t end) override;
  void barrier() override { communicator_.barrier(); }
  void share(void* data, std::size_t bytes) override;
  void collect(const double* mine, std::size_t count, double* all) override;

  /// Collective: the algorithm that kolo runs for the case prepared last, found by running it once more.
  std::string algorithm_used();
  /// "shm", or "shm+tcp" where this rank has both kinds of links.
  std::string transports() const;

 private:
  struct Buffers {
    ConstBuffer in;
    Buffer out;
  };
  void call(const Buffers& buffers);
  void copy(bool down, bool up) {
    if (gpu_memory_) gpu_memory_->copy(down, up);
  }
  Work start(const Buffers& buffers);

  Communicator communicator_;
  std::string algorithm_;
  bool shared_;
  std::optional<SharedMemory> shared_memory_;
  PlainMemory plain_memory_;
  std::optional<GpuMemory> gpu_memory_;
  Case what_;
  CallOptions options_;
  std::vector<Buffers> buffers_;
  std::vector<Work> works_;
};

}  // namespace kolo::bench
