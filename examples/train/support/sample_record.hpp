// Which samples a process takes in an elastic training, for a check that each is trained once.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kolo/communicator.hpp"
#include "kolo/train/elastic.hpp"

namespace support {

/// Lines of JSON in FOLDER/HOST-PID.jsonl: one for each group of ranks, and one for each step before anything
/// is computed in it. Of a step that several groups have begun, the last one's samples count.
class SampleRecord {
 public:
  /// Writes nothing where `folder` is empty. Throws std::runtime_error that names a file which cannot be
  /// written.
  explicit SampleRecord(const std::string& folder);

  /// Collective: numbers the group, later ones higher, also those that begin with the same step.
  void number_group(kolo::Communicator& group);
  /// Returns the line that it writes.
  nlohmann::json begin_group(const kolo::ElasticChange& change);
  void take(std::uint64_t step, std::uint64_t epoch, const std::vector<std::int64_t>& samples);

 private:
  void write(const nlohmann::json& line);

  std::ofstream file_;
  std::int64_t group_ = 0;
};

}  // namespace support
