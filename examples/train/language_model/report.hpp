// What rank 0 shows of a run: a table, a picture and metrics.json.
#pragma once

#include <string>

#include "language_model/history.hpp"
#include "language_model/options.hpp"

namespace language_model {

std::string summary_table(const History& history);

std::string metrics_json(const Options& options, const History& history);

/// The curves of another run.
struct OtherRun {
  int ranks = 0;  ///< 0: there is none
  support::Curve losses, held_out;
};

/// Reads a metrics.json; none for an empty path. Throws std::runtime_error that names a file which is none.
OtherRun read_run(const std::string& path);

/// A self-contained SVG: bits per byte against steps, of this run and the other one.
std::string draw_chart(const History& history, const OtherRun& other);

}  // namespace language_model
