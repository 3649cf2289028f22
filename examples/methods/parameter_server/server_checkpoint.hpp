// A server's checkpoint: its share, and which push of each worker it has.
#pragma once

#include <string>
#include <vector>

#include "methods/parameter_server/rules.hpp"
#include "methods/parameter_server/shard.hpp"

namespace kolo::methods {

/// Whole at every moment. Throw Error, with the path, for what cannot be written, or read, or is of another
/// server.
void save_server(const std::string& path, ServerShard& shard, std::vector<WorkerRecord>& workers);
/// False where there is none.
bool load_server(const std::string& path, ServerShard& shard, std::vector<WorkerRecord>& workers);

}  // namespace kolo::methods
