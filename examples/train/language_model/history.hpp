// What training a language model leaves behind, for the table, the picture and metrics.json.
#pragma once

#include <cstdint>
#include <string>

#include "support/communication.hpp"
#include "support/curve.hpp"

namespace language_model {

struct History {
  support::Curve losses;    ///< bits per byte, mean over a few steps and all ranks
  support::Curve held_out;  ///< bits per byte of the held-out text; all but the last from a part of it
  std::string generated;    ///< rank 0's; begins with the prompt
  std::int64_t parameters = 0;
  std::int64_t steps = 0;
  std::int64_t training_bytes = 0;  ///< of the text
  std::int64_t held_out_bytes = 0;
  std::int64_t bytes_per_step = 0;
  double gzip_bits = 0;         ///< per byte, what gzip -9 makes of the held-out text
  double training_seconds = 0;  ///< steps only
  double total_seconds = 0;     ///< with evaluation
  double peak_bytes = 0;        ///< resident memory, at most; mean over the ranks
  bool in_bfloat16 = false;
  int ranks = 1;
  int signal = 0;  ///< that ended the run early; 0: none
  support::Communication communication;
};

}  // namespace language_model
