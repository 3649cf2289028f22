// A server's checkpoint: its share, and which push of each worker it has.
#pragma once

#include <string>
#include <vector>

#include "server/rules.hpp"
#include "server/shard.hpp"

namespace kolo::train {

/// One file, whole at every moment. Throw std::runtime_error, with the path, for what cannot be written, or
/// read, or is of another server.
void save_server(const std::string& path, const ServerShard& shard, const std::vector<WorkerRecord>& workers);
void load_server(const std::string& path, ServerShard& shard, std::vector<WorkerRecord>& workers);

}  // namespace kolo::train
