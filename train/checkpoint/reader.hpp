// Reads a folder of a checkpoint: its index, and regions of tensors from its files.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>

#include "checkpoint/format.hpp"
#include "kolo/train/parallel_model.hpp"

namespace kolo::train {

/// "F32" for kFloat. Throws std::runtime_error for a type that safetensors do not have; the inverse too.
std::string dtype_name(at::ScalarType type);
at::ScalarType scalar_type(const std::string& dtype);

/// An open file. Throws std::runtime_error with the system's words.
class DiskFile {
 public:
  DiskFile(const std::string& path, int flags);
  ~DiskFile();
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;
  std::uint64_t size() const;
  void read(std::uint64_t at, void* to, std::uint64_t bytes) const;
  void write(const void* from, std::uint64_t bytes);
  void sync();

 private:
  int fd_;
};

/// Whether the region may need elements of the part.
bool is_needed(const StoredTensor& there, const Region& part, const PlacedParameter& here);

/// What a Transfer loads from.
class StateReader {
 public:
  virtual ~StateReader() = default;
  const CheckpointIndex& index() const { return index_; }
  /// All that run() will read: other ranks may have it.
  virtual void fetch(const std::map<std::string, PlacedParameter>& /*wanted*/) {}
  /// The region's elements as in region_in(), of the type that they have there.
  virtual at::Tensor read(const PlacedParameter& here);

 protected:
  /// All elements of one of the index's parts, as they lie in memory.
  virtual void read_part(const std::string& name, const HeldRegion& part, void* to) = 0;

  CheckpointIndex index_;
};

/// Not thread-safe.
class CheckpointReader final : public StateReader {
 public:
  /// Reads the index. Throws std::exception, with the file's name, where there is none, or none that is
  /// whole.
  explicit CheckpointReader(std::string folder);
  /// Of the index's text.
  std::uint32_t index_crc() const { return index_crc_; }
  /// Reads every file whose number is `rank` modulo `ranks`, and throws std::exception, with its name, unless
  /// it is as the index says and has the parts that the index looks for there.
  void check_files(std::uint64_t rank, std::uint64_t ranks);

 private:
  void read_part(const std::string& name, const HeldRegion& part, void* to) override;
  struct Open {
    DiskFile file;
    FileHeader header;
  };
  template <typename Action>
  auto named(const std::string& file, const Action& action);
  Open& open(const std::string& file);

  std::string folder_;
  std::uint32_t index_crc_ = 0;
  std::map<std::string, std::unique_ptr<Open>> files_;
};

}  // namespace kolo::train
