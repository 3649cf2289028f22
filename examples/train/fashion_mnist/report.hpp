// What rank 0 says and writes at the end.
#pragma once

#include <string>

#include "fashion_mnist/history.hpp"
#include "fashion_mnist/options.hpp"

namespace fashion_mnist {

/// The closing table, lines with their newlines.
std::string summary_table(const History& history);
/// The run as JSON: options, curves, communication.
std::string metrics_json(const Options& options, const History& history);
/// Writes a text file; throws std::runtime_error that names it when that fails.
void write_file(const std::string& path, const std::string& text);

}  // namespace fashion_mnist
