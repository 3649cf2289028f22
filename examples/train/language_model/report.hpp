// What rank 0 shows of a run: a table, a picture and metrics.json.
#pragma once

#include <string>

#include "language_model/history.hpp"
#include "language_model/options.hpp"
#include "support/other_run.hpp"

namespace language_model {

std::string summary_table(const History& history);

std::string metrics_json(const Options& options, const History& history);

/// A self-contained SVG: bits per byte against steps, of this run and the other one.
std::string draw_chart(const History& history, const support::OtherRun& other);

}  // namespace language_model
