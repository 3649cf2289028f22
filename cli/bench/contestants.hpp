// The two contestants (backends) of this program: kolo, and rewriting of memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/contestant.hpp"
#include "bench/memory.hpp"
#include "kolo/kolo.hpp"

namespace kolo::bench {

/// kolo over one communicator. An empty algorithm leaves the choice to kolo.
class KoloContestant : public Contestant {
 public:
  KoloContestant(Communicator communicator, std::string algorithm, bool shared_memory);

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  std::vector<std::string> algorithms(const Case& what) const override;
  std::byte* memory(std::size_t bytes) override;
  void prepare(const Case& what, const std::string& algorithm, std::span<const Piece> pieces) override;
  void call() override;
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
  Work start(const Buffers& buffers);

  Communicator communicator_;
  std::string algorithm_;
  bool shared_;
  std::optional<SharedMemory> shared_memory_;
  PlainMemory plain_memory_;
  Case what_;
  CallOptions options_;
  std::vector<Buffers> buffers_;
  std::vector<Work> works_;
};

/// Every rank loads, changes and stores its own memory in place, all ranks at once. These are the minimum
/// loads and stores of an all-reduce in place, without data from other ranks. All other functions are
/// forwarded to the other contestant, including its memory.
class RewriteContestant : public Contestant {
 public:
  explicit RewriteContestant(Contestant& other) : other_(other) {}

  int rank() const override { return other_.rank(); }
  int size() const override { return other_.size(); }
  std::vector<std::string> algorithms(const Case&) const override { return {"rewrite"}; }
  bool computes() const override { return false; }
  std::byte* memory(std::size_t bytes) override { return other_.memory(bytes); }
  void prepare(const Case& what, const std::string& algorithm, std::span<const Piece> pieces) override;
  void call() override;
  void barrier() override { other_.barrier(); }
  void share(void* data, std::size_t bytes) override { other_.share(data, bytes); }
  void collect(const double* mine, std::size_t count, double* all) override {
    other_.collect(mine, count, all);
  }

 private:
  Contestant& other_;
  std::vector<Piece> pieces_;
  std::size_t bytes_ = 0;
};

}  // namespace kolo::bench
