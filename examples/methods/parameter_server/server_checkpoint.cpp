#include "methods/parameter_server/server_checkpoint.hpp"

#include <ATen/Functions.h>

#include <stdexcept>

#include "kolo/communicator.hpp"
#include "kolo/train/checkpoint.hpp"

namespace kolo::methods {
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

struct ServerState {
  void save(torch::serialize::OutputArchive& archive) const {
    shard.save(archive);
    archive.write("workers", tensor_of(workers));
  }
  void load(torch::serialize::InputArchive& archive) {
    shard.load(archive);
    at::Tensor records;
    archive.read("workers", records);
    read_records(records, workers);
  }

  ServerShard& shard;
  std::vector<WorkerRecord>& workers;
};

/// A checkpoint is collective, and a server saves its share alone.
Communicator alone() {
  return Communicator::create(make_memory_store(), 0, 1, {.measure_costs = false});
}

}  // namespace

void save_server(const std::string& path, ServerShard& shard, std::vector<WorkerRecord>& workers) {
  ServerState state{shard, workers};
  Communicator own = alone();
  Checkpoint checkpoint({.keep = 1});
  checkpoint.add("server", state).save(path, shard.version() + 1, own);  // 0 is no checkpoint
  checkpoint.wait();
}

bool load_server(const std::string& path, ServerShard& shard, std::vector<WorkerRecord>& workers) {
  ServerState state{shard, workers};
  Communicator own = alone();
  return Checkpoint().add("server", state).resume(path, own) != 0;
}

}  // namespace kolo::methods
