// The metrics of this process over HTTP, for Prometheus: KOLO_METRICS.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "observe/metrics.hpp"

namespace kolo::comm {

struct MetricsPlace {
  std::string host;
  std::uint16_t port = 0;
};

/// "9400", "10.0.0.1:9400", "[fd00::1]:9400", each for the first rank of a host; `local_rank` is added to the
/// port. Without an address it is loopback. Code::invalid_argument in words.
Result<MetricsPlace> parse_metrics_place(const std::string& text, int local_rank);

/// The page of this process, served while a caller holds it, by a thread of its own. Clients that are slow,
/// silent or many cost little and delay no rank.
Result<std::shared_ptr<observe::MetricsPage>> serve_metrics_at(const MetricsPlace& place);

/// The page that KOLO_METRICS asks for, one for all groups of the process. Null if it asks for none; null
/// with a warning if it cannot be served: a job does not fail for want of metrics. Thread-safe.
std::shared_ptr<observe::MetricsPage> serve_metrics();

}  // namespace kolo::comm
