// Unit: parameters that lie side by side in memory, of which each rank keeps a part.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ddp/replicas.hpp"
#include "kolo/communicator.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "kolo/work.hpp"

namespace kolo::train {

/// Elements are numbered through all members, in the order in which they lie in memory, and the numbers are
/// divided among the ranks as evenly as can be. Not thread-safe.
class Unit {
 public:
  struct Member {
    NamedTensor named;
    std::uint64_t begin;  ///< its first element's number
    /// This rank's elements of it, perhaps none: [n] where the parameter has one dimension or none, else
    /// [n, 1]. A leaf, for the optimizer.
    at::Tensor shard;
  };

  /// The parameters, dense CPU tensors of one element type, keep their values and move into memory of the
  /// unit. With Shard::parameters that memory is given back.
  Unit(std::vector<NamedTensor> parameters, int rank, int size, Shard shard);
  Unit(Unit&&) noexcept = default;
  Unit& operator=(Unit&&) noexcept = default;
  ~Unit();

  const std::vector<Member>& members() const noexcept { return members_; }
  std::uint64_t bytes() const;
  /// Elements of the member that each rank has.
  std::vector<std::uint64_t> counts_of(const Member& member) const;
  /// A tensor whose storage all members share.
  const at::Tensor& watched() const { return members_.front().named.tensor; }

  /// Starts to make all elements of all ranks there: collective. Nothing where is_gathering() or is_whole().
  void start_gather(Communicator& communicator);
  void wait_gather();
  bool is_gathering() const noexcept { return gather_.valid(); }
  /// All elements are there, as they were at the last gather.
  bool is_whole() const noexcept { return is_whole_ && !is_gathering(); }
  /// The shards have changed: what is there is out of date.
  void set_stale() noexcept { is_whole_ = false; }
  /// Gives the memory back; only with Shard::parameters.
  void release();
  /// Memory with any values, for operations of a step that has failed.
  void provide();
  /// Copies elements from the whole parameters, which may have been loaded, into the shards.
  void take_values();

  /// A backward begins: gradients that the shards have will be added to.
  void begin_gradients();
  /// Takes a member's gradient away, into memory of the unit.
  void collect(std::size_t member);
  bool is_complete() const noexcept { return missing_ == 0; }
  /// What has no gradient counts as zero.
  void complete();
  /// Starts to average: collective. The unit is complete.
  void start_scatter(Communicator& communicator);
  bool is_scattering() const noexcept { return scatter_.valid(); }
  /// Waits, and makes the averages the shards' gradients.
  void finish_scatter();

 private:
  using Memory = std::shared_ptr<std::byte[]>;
  std::byte* at(const Memory& memory, std::uint64_t element) const {
    return memory.get() + element * element_bytes_;
  }
  Buffer part_of(const Memory& memory, std::uint64_t begin, std::uint64_t count) const;
  /// Calls with a member's shard and where its elements are in memory that holds this rank's ones.
  template <typename Use>
  void for_each_shard(const Use& use);
  void make_storage();
  void adopt();

  std::vector<Member> members_;
  Shard shard_;
  DType dtype_;
  std::uint64_t element_bytes_;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> counts_;  ///< of each rank
  std::uint64_t own_begin_ = 0, own_count_ = 0;

  c10::Storage storage_;  ///< of all members
  Memory whole_;          ///< null: given back
  Memory own_;            ///< this rank's elements; with whole_ kept, a part of it
  bool is_whole_ = false;
  Work gather_;

  Memory gradients_;  ///< this rank's, of all elements; null between steps, but for Shard::optimizer_state
  Memory own_gradients_;  ///< averages of this rank's elements
  Memory earlier_;        ///< what the shards had before this backward; null: nothing
  std::vector<bool> has_gradient_;
  std::size_t missing_ = 0;
  Work scatter_;
};

}  // namespace kolo::train
