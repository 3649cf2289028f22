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

}  // namespace fashion_mnist
