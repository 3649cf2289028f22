// Settings: what is wrong with a rank's options and environment, found without another rank.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "kolo/communicator.hpp"
#include "transport/transport.hpp"

namespace kolo::comm {

/// The transports that `options` or the environment allow, best first. Code::invalid_argument for an unknown
/// name.
Result<std::vector<transport::TransportFactory>> allowed_transports(const Options& options);

/// Everything that can be checked before the store is dialled. Code::invalid_argument that names the setting.
Status check_settings(const Options& options);

/// The job's key: the caller's, else the environment's.
const std::string& key_of(const Options& options);

/// Logs a warning where the job's key can be guessed.
void warn_of_short_key(const Options& options);

}  // namespace kolo::comm
