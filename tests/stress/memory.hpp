// Memory: the buffers of a rank, of all kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kolo/kolo.hpp"
#include "stress/random.hpp"

namespace kolo::stress {

/// Buffers come and go, and are used again.
class Memory {
 public:
  Memory(std::uint64_t seed, bool private_too) : random_(seed), kinds_(private_too ? 3 : 2) {}

  /// Room for `count` numbers, in memory of a kind that is drawn: SharedMemory, SharedArena, maybe private.
  /// It stays until free_all().
  std::int32_t* take(std::uint64_t count);
  void free_all();

  /// Writes a pattern over everything.
  void paint();
  /// Whether all of it is still there.
  bool is_as_painted() const;

 private:
  enum class Kind { shared, arena, own };

  struct Block {
    Kind kind;
    std::uint64_t count;
    bool taken;
    std::shared_ptr<std::byte[]> data;

    std::int32_t* numbers() const { return reinterpret_cast<std::int32_t*>(data.get()); }
  };

  Block make(Kind kind, std::uint64_t count);

  Random random_;
  const std::uint64_t kinds_;
  SharedArena arena_{std::size_t{8} << 20};
  std::vector<Block> blocks_;
  std::int32_t pattern_ = 0;
};

}  // namespace kolo::stress
