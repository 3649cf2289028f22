// Row: one result of one library, for the table and the JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/case.hpp"
#include "bench/loop.hpp"
#include "bench/statistics.hpp"

namespace kolo::bench {

struct Row {
  std::string
      library;  ///< "kolo", "gloo", ...; "rewrite" for rewriting of memory, "copies" to a GPU and back
  std::string algorithm;
  std::string transport;
  std::string memory;  ///< "shared", "private", or of a device: "cuda", "cuda:1"
  Case what;
  Summary times_us;
  Interval mean_us;
  std::size_t iterations = 0;
  double time_us = 0;  ///< the median, or the mean if an iteration has several steps
  double algbw = 0;    ///< GB/s
  double busbw = 0;    ///< GB/s
  std::uint64_t wrong = 0;
  Deviation deviation = {};
  std::string version = {};   ///< of a peer: as it tells it
  std::string settings = {};  ///< of a peer: with which it was started
};

Row make_row(const std::string& library, const std::string& transport, const std::string& memory,
             const Case& what, const Sample& sample);

/// Appends the samples of another round to those of the same algorithm.
void merge(std::vector<Sample>& into, const std::vector<Sample>& more);
/// The sample with the lowest median; null if there is none.
const Sample* best(const std::vector<Sample>& samples);

/// The row as a line of JSON. `type` is "result", or what was measured that is no call: "rewrite", "copies".
std::string row_line(const Row& row);
/// A line of `type` "choice", for `--algorithm all`: kolo's choice, the fastest algorithm, and their ratio.
std::string choice_line(const Case& what, const std::string& choice, const std::string& fastest,
                        const Ratio& ratio);

}  // namespace kolo::bench
