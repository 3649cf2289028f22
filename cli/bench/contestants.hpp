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

  std::vector<std::string> algorithms(const Case& what) const override;
  std::byte* memory(std::size_t bytes) override;
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

/// All ranks load, change and store their own memory in place at once: the least loads and stores of an
/// all-reduce in place. Other functions, memory() too, are those of the other contestant.
class RewriteContestant : public Contestant {
 public:
  explicit RewriteContestant(Contestant& other) : Contestant(other.rank(), other.size()), other_(other) {}

  std::vector<std::string> algorithms(const Case&) const override { return {"rewrite"}; }
  bool computes() const override { return false; }
  std::byte* memory(std::size_t bytes) override { return other_.memory(bytes); }
  void prepare(const Case& what, const std::string& algorithm, std::span<const Piece> pieces) override;
  void call(std::size_t begin, std::size_t end) override;
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
