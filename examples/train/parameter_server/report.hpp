// What the first worker says and writes at the end, of all ranks.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "kolo/store.hpp"
#include "parameter_server/options.hpp"

namespace parameter_server {

/// Each rank leaves in the store what it found.
void leave(kolo::Store& store, int rank, const nlohmann::json& found);

/// Of all ranks that have left something: the run as JSON. Ranks that leave nothing within some seconds are
/// dead.
nlohmann::json gather_results(kolo::Store& store, const Options& options, int size);

/// The closing table, lines with their newlines.
std::string summary_table(const nlohmann::json& metrics);

}  // namespace parameter_server
