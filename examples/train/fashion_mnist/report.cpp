#include "fashion_mnist/report.hpp"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

namespace fashion_mnist {
namespace {

/// What a ring all-reduce sends per rank for so many bytes.
double ring_bytes(const History& history) {
  return 2.0 * (history.ranks - 1) / history.ranks * history.gradient_bytes_per_step;
}

/// "635,196"; with a decimal where the mean over the ranks is no whole number.
std::string grouped(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  const std::size_t whole = std::min(text.find('.'), text.size());
  for (std::size_t i = whole; i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

nlohmann::json curve(const std::vector<Point>& points) {
  auto result = nlohmann::json::array();
  for (const Point& point : points) result.push_back({point.epoch, point.value, point.seconds});
  return result;
}

}  // namespace

std::string summary_table(const History& history) {
  std::string table;
  const auto row = [&table](const std::string& name, const std::string& value,
                            const std::string& remark = {}) {
    fmt::format_to(std::back_inserter(table), "  {:<34}{:>14}", name, value);
    table += remark.empty() ? "\n" : "   " + remark + '\n';
  };
  const double hidden = seconds(history.communication.hidden);
  const double exposed = seconds(history.communication.exposed);
  const double steps = static_cast<double>(std::max<std::int64_t>(history.steps, 1));
  if (!history.accuracies.empty())
    row("test accuracy", fmt::format("{:.2f} %", history.accuracies.back().value));
  if (!history.losses.empty()) row("training loss", fmt::format("{:.4f}", history.losses.back().value));
  row("ranks", std::to_string(history.ranks));
  row("steps", grouped(static_cast<double>(history.steps)));
  row("total time", fmt::format("{:.1f} s", history.total_seconds), "with evaluation");
  if (history.training_seconds > 0) {
    row("images per second",
        grouped(std::round(static_cast<double>(history.images) / history.training_seconds)),
        "all ranks together");
  }
  row("gradients", grouped(history.gradient_bytes_per_step) + " B", "per rank and step");
  row("  sent", grouped(history.sent_bytes_per_step) + " B", "per rank and step, mean of the ranks");
  row("  2(N-1)/N of the gradients", grouped(ring_bytes(history)) + " B",
      history.sent_bytes_per_step == ring_bytes(history) ? "exactly what was sent"
                                                         : "what a ring all-reduce of float32 sends");
  row("communication hidden", fmt::format("{:.2f} ms", 1e3 * hidden / steps), "per step, under backward");
  row("communication exposed", fmt::format("{:.2f} ms", 1e3 * exposed / steps),
      history.training_seconds > 0 ? fmt::format("per step: {:.1f} % of the step was waiting",
                                                 100 * exposed / history.training_seconds)
                                   : std::string());
  return table;
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
        {"bfloat16", options.in_bfloat16},
        {"loss_scale", options.loss_scale},
        {"reader", options.reader}}},
      {"parameters", history.parameters},
      {"steps", history.steps},
      {"images", history.images},
      {"peak_bytes", history.peak_bytes},
      {"signal", history.signal},
      {"total_seconds", history.total_seconds},
      {"training_seconds", history.training_seconds},
      {"communication",
       {{"all_reduces", history.communication.all_reduces},
        {"hidden_seconds", seconds(history.communication.hidden)},
        {"exposed_seconds", seconds(history.communication.exposed)},
        {"gradient_bytes_per_step", history.gradient_bytes_per_step},
        {"sent_bytes_per_step", history.sent_bytes_per_step},
        {"ring_bytes_per_step", ring_bytes(history)}}},
      {"data",
       {{"wait_seconds_per_step", history.data_wait_per_step},
        {"ready_seconds", history.data_ready_seconds}}},
      {"loss", curve(history.losses)},
      {"learning_rate", curve(history.rates)},
      {"test_accuracy", curve(history.accuracies)},
  };
  return json.dump(1) + '\n';
}

}  // namespace fashion_mnist
