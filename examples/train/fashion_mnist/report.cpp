#include "fashion_mnist/report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/summary_table.hpp"

namespace fashion_mnist {

std::string summary_table(const History& history) {
  support::SummaryTable table;
  if (!history.evaluations.empty())
    table.row("test accuracy", fmt::format("{:.2f} %", history.evaluations.back().value));
  if (!history.losses.empty()) table.row("training loss", fmt::format("{:.4f}", history.losses.back().value));
  table.row("ranks", std::to_string(history.ranks));
  table.row("steps", support::grouped(static_cast<double>(history.steps)));
  table.row("total time", fmt::format("{:.1f} s", history.total_seconds), "with evaluation");
  if (history.training_seconds > 0) {
    const double rate = static_cast<double>(history.samples) / history.training_seconds;
    table.row("images per second", support::grouped(std::round(rate)), "all ranks together");
  }
  table.rows(history.communication);
  return std::move(table).text();
}

std::string metrics_json(const Options& options, const History& history) {
  const nlohmann::json json = {
      {"ranks", history.ranks},
      {"options",
       {{"epochs", options.epochs},
        {"batch", options.batch},
        {"learning_rate", options.learning_rate},
        {"optimizer", options.optimizer},
        {"freeze_after_steps", options.freeze_after_steps},
        {"momentum", options.momentum},
        {"accumulate", options.accumulate},
        {"scale_rate", options.scale_rate},
        {"schedule", options.schedule},
        {"milestones", options.milestones},
        {"weight_decay", options.weight_decay},
        {"trust_coefficient", options.trust_coefficient},
        {"warm_up_epochs", options.warm_up_epochs ? nlohmann::json(*options.warm_up_epochs) : nullptr},
        {"seed", options.seed},
        {"limit", options.limit},
        {"held_out", options.held_out},
        {"steps", options.steps},
        {"hook", options.hook},
        {"wire", options.wire},
        {"synchronization", options.synchronization},
        {"period", options.period},
        {"averaged_epochs", options.averaged_epochs},
        {"outer_learning_rate", options.outer_learning_rate},
        {"outer_momentum", options.outer_momentum},
        {"bfloat16", options.in_bfloat16},
        {"loss_scale", options.loss_scale},
        {"reader", options.reader}}},
      {"parameters", history.parameters},
      {"steps", history.steps},
      {"images", history.samples},
      {"peak_bytes", history.peak_bytes},
      {"signal", history.signal},
      {"total_seconds", history.total_seconds},
      {"training_seconds", history.training_seconds},
      {"communication", support::to_json(history.communication)},
      {"data",
       {{"wait_seconds_per_step", history.data_wait_per_step},
        {"ready_seconds", history.data_ready_seconds}}},
      {"loss", support::to_json(history.losses)},
      {"learning_rate", support::to_json(history.rates)},
      {"test_accuracy", support::to_json(history.evaluations)},
  };
  return json.dump(1) + '\n';
}

}  // namespace fashion_mnist
