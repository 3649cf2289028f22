// A server of train_parameter_server.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "kolo/store.hpp"
#include "parameter_server/options.hpp"

namespace parameter_server {

/// Serves until all workers have left; returns what the report takes of it.
nlohmann::json serve(const Options& options, const kolo::Launch& launch, std::shared_ptr<kolo::Store> store);

}  // namespace parameter_server
