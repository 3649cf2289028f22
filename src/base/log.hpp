// The library's log: one spdlog logger named "kolo" on standard error, level from KOLO_LOG.
#pragma once

#include <spdlog/spdlog.h>

namespace kolo {

/// Thread-safe, and never waits: a line that standard error cannot take at once is dropped. Use as
/// log().info("...").
spdlog::logger& log();

}  // namespace kolo
