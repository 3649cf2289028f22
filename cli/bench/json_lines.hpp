// JSON lines: the results for programs. The first line describes the machine, each other line is one row.
#pragma once

#include <string>

#include "bench/machine.hpp"
#include "bench/neighbours.hpp"
#include "bench/row.hpp"

namespace kolo::bench {

std::string machine_line(const Machine& machine, const std::string& version, const Neighbourhood& neighbours);
/// `type` is "rewrite" for the rewriting of memory, else "result".
std::string row_line(const Row& row);
/// A line of `type` "choice", for `--algorithm all`: kolo's choice, the fastest algorithm, and their ratio.
std::string choice_line(const Case& what, const std::string& choice, const std::string& fastest,
                        const Ratio& ratio);

}  // namespace kolo::bench
