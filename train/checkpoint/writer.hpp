// Writes a checkpoint: deals what ranks have to their files, and puts these into a folder, all or none.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format.hpp"
#include "checkpoint/transfer.hpp"
#include "kolo/communicator.hpp"

namespace kolo::train {

/// This rank's file of a checkpoint, in memory that is kept from one to the next.
class CheckpointCopy {
 public:
  /// Collective: copies this rank's share of what `collect` gives on the ranks. Of parts that several ranks
  /// have, one rank writes each, so that all write about as many bytes. Throws, on all ranks, MismatchError
  /// for tensors of one name that differ, InvalidArgumentError for parts with holes or overlaps, and Error
  /// for what `collect` throws.
  void take(const std::function<std::vector<PlacedParameter>()>& collect, std::uint64_t step,
            Communicator& communicator);
  /// Collective, of another communicator than take(). Writes FOLDER/step-N, under that name as soon as it is
  /// whole and on the disk; then removes all but the `keep` newest up to it. On an Error, which all ranks
  /// throw, nothing of it is left.
  void write(const std::string& folder, std::uint64_t keep, Communicator& communicator);

 private:
  void plan(const std::string& mine, Communicator& communicator);

  std::string mine_;  ///< what the ranks know of this one
  CheckpointIndex index_;
  FileHeader header_;
  std::vector<std::pair<std::string, std::string>> copies_;  ///< name and key
  std::unique_ptr<std::byte[]> memory_;
  std::uint64_t capacity_ = 0;
  std::string problem_;  ///< of the copy, of which write() tells all ranks
};

/// The steps of the checkpoints in a folder, descending.
std::vector<std::uint64_t> steps_in(const std::string& folder);
std::string step_folder(const std::string& folder, std::uint64_t step);

}  // namespace kolo::train
