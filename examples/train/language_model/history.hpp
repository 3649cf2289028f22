// What training a language model leaves behind, for the table, the picture and metrics.json.
#pragma once

#include <cstdint>
#include <string>

#include "support/communication.hpp"
#include "support/progress.hpp"

namespace language_model {

/// Losses are bits per byte, and so are evaluations: of the held-out text, all but the last from a part of
/// it.
struct History : support::Progress {
  std::string generated;  ///< rank 0's; begins with the prompt
  std::int64_t parameters = 0;
  std::int64_t training_bytes = 0;  ///< of the text
  std::int64_t held_out_bytes = 0;
  std::int64_t bytes_per_step = 0;
  double gzip_bits = 0;      ///< per byte, what gzip -9 makes of the held-out text
  double total_seconds = 0;  ///< with evaluation
  double peak_bytes = 0;     ///< resident memory, at most; mean over the ranks
  bool in_bfloat16 = false;
  int ranks = 1;  ///< of the last group
  support::Communication communication;
};

}  // namespace language_model
