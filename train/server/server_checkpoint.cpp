#include "server/server_checkpoint.hpp"

#include <ATen/Functions.h>

#include <sstream>
#include <stdexcept>

#include "checkpoint/file.hpp"
#include "kolo/error.hpp"

namespace kolo::train {
namespace {

/// [workers, 2], int64: sequence and status.
at::Tensor tensor_of(const std::vector<WorkerRecord>& workers) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(workers.size()), 2}, at::kLong);
  auto* at = tensor.data_ptr<std::int64_t>();
  for (const WorkerRecord& worker : workers) {
    *at++ = static_cast<std::int64_t>(worker.sequence);
    *at++ = static_cast<std::int64_t>(worker.status);
  }
  return tensor;
}

void read_records(const at::Tensor& tensor, std::vector<WorkerRecord>& workers) {
  const auto count = static_cast<std::int64_t>(workers.size());
  if (tensor.scalar_type() != at::kLong || tensor.sizes() != at::IntArrayRef({count, 2}))
    throw std::runtime_error("it is not of " + std::to_string(count) + " workers");
  const at::Tensor rows = tensor.contiguous();
  const auto* at = rows.data_ptr<std::int64_t>();
  for (WorkerRecord& worker : workers) {
    worker.sequence = static_cast<std::uint64_t>(*at++);
    const auto status = static_cast<WorkerStatus>(*at++);
    const bool is_gone = status == WorkerStatus::left || status == WorkerStatus::lost;
    worker.status = is_gone ? status : WorkerStatus::expected;
  }
}

}  // namespace

void save_server(const std::string& path, const ServerShard& shard,
                 const std::vector<WorkerRecord>& workers) {
  torch::serialize::OutputArchive archive;
  shard.save(archive);
  archive.write("workers", tensor_of(workers));
  std::ostringstream bytes;
  archive.save_to(bytes);
  write_checkpoint(path, {.step = shard.version(), .shared = bytes.str(), .ranks = {}});
}

void load_server(const std::string& path, ServerShard& shard, std::vector<WorkerRecord>& workers) {
  const CheckpointFile file = read_checkpoint(path);
  const std::string problem = problem_of([&] {
    std::istringstream bytes(file.shared);
    torch::serialize::InputArchive archive;
    archive.load_from(bytes);
    shard.load(archive);
    at::Tensor records;
    archive.read("workers", records);
    read_records(records, workers);
  });
  if (!problem.empty()) throw Error(path + ": " + problem, {});
}

}  // namespace kolo::train
