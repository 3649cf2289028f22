#include "language_model/report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/summary_table.hpp"

namespace language_model {

std::string summary_table(const History& history) {
  using support::grouped;
  support::SummaryTable table;
  if (!history.evaluations.empty())
    table.row("bits per byte, held out", fmt::format("{:.3f}", history.evaluations.back().value),
              fmt::format("gzip -9 needs {:.3f}", history.gzip_bits));
  if (!history.losses.empty())
    table.row("bits per byte, training", fmt::format("{:.3f}", support::smooth(history.losses).back().value));
  table.row("parameters", grouped(static_cast<double>(history.parameters)),
            history.in_bfloat16 ? "products in bfloat16" : "products in float32");
  table.row("ranks", std::to_string(history.ranks));
  table.row("steps", grouped(static_cast<double>(history.steps)),
            fmt::format("of {} bytes", grouped(static_cast<double>(history.bytes_per_step))));
  table.row("training time", fmt::format("{:.1f} s", history.training_seconds),
            fmt::format("{:.1f} s with evaluation", history.total_seconds));
  if (history.training_seconds > 0) {
    const auto bytes = static_cast<double>(history.steps * history.bytes_per_step);
    table.row("bytes per second", grouped(std::round(bytes / history.training_seconds)),
              "all ranks together");
  }
  table.rows(history.communication);
  return std::move(table).text();
}

std::string metrics_json(const Options& options, const History& history) {
  const nlohmann::json json = {
      {"ranks", history.ranks},
      {"options",
       {{"text", options.text},
        {"minutes", options.minutes},
        {"steps", options.steps},
        {"batch", options.batch},
        {"learning_rate", options.learning_rate},
        {"weight_decay", options.weight_decay},
        {"max_norm", options.max_norm},
        {"width", options.shape.width},
        {"layers", options.shape.layers},
        {"heads", options.shape.heads},
        {"longest_ngram", options.shape.longest_ngram},
        {"ngram_rows", options.shape.ngram_rows},
        {"ngram_width", options.shape.ngram_width},
        {"shard", options.shard},
        {"context", options.shape.context},
        {"seed", options.seed}}},
      {"in_bfloat16", history.in_bfloat16},
      {"parameters", history.parameters},
      {"steps", history.steps},
      {"bytes_per_step", history.bytes_per_step},
      {"training_bytes", history.training_bytes},
      {"held_out_bytes", history.held_out_bytes},
      {"gzip_bits", history.gzip_bits},
      {"peak_bytes", history.peak_bytes},
      {"signal", history.signal},
      {"total_seconds", history.total_seconds},
      {"training_seconds", history.training_seconds},
      {"communication", support::to_json(history.communication)},
      {"loss", support::to_json(history.losses)},
      {"held_out", support::to_json(history.evaluations)},
      {"generated", history.generated},
  };
  return json.dump(1) + '\n';
}

}  // namespace language_model
