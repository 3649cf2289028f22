// A server of train_parameter_server, and the store at which servers and workers meet.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "kolo/store.hpp"
#include "parameter_server/options.hpp"

namespace parameter_server {

/// As kolo::methods::parameter_server_store(); ranks have a minute to come.
std::shared_ptr<kolo::Store> open_store(const kolo::Launch& launch);

/// Serves until all workers have left; returns what the report takes of it.
nlohmann::json serve(const Options& options, const kolo::Launch& launch, std::shared_ptr<kolo::Store> store);

}  // namespace parameter_server
