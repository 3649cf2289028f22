#include "fashion_mnist/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "support/svg.hpp"

namespace fashion_mnist {
namespace {

using support::Axis;
using support::Point;
using support::Svg;
using support::tick;

constexpr const char* kLossColor = "#1f6fb2";
constexpr const char* kAccuracyColor = "#c2571a";

double last_epoch(const support::Curve& curve) {
  return curve.empty() ? 0 : curve.back().at;
}

std::string title(const History& history) {
  return fmt::format("Fashion-MNIST on {} {}", history.ranks, history.ranks == 1 ? "rank" : "ranks");
}

std::string subtitle(const History& history) {
  std::string text = fmt::format("{} steps in {:.0f} s", history.steps, history.total_seconds);
  if (!history.losses.empty())
    text += fmt::format(", loss {:.3f}", support::smooth(history.losses).back().value);
  if (!history.accuracies.empty())
    text += fmt::format(", test accuracy {:.2f} %", history.accuracies.back().value);
  return text;
}

/// 100 % is at the top.
Axis accuracy_axis(const support::Curve& accuracies, double& step) {
  double lowest = 100;
  for (const Point& point : accuracies) lowest = std::min(lowest, point.value);
  step = tick(std::max(100 - lowest, 5.0), 5);
  return {std::max(0.0, 100 - step * std::ceil((100 - lowest) / step + 0.25)), 100, Svg::kBottom, Svg::kTop};
}

void right_axis(Svg& svg, const Axis& axis, double step) {
  for (double value = 100; value >= axis.low - 1e-9; value -= step) {
    svg.add(R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="{}"/>)", Svg::kRight, axis(value),
            Svg::kRight + 5, axis(value), kAccuracyColor);
    svg.label(Svg::kRight + 10, axis(value) + 4.5, "start", kAccuracyColor, fmt::format("{:g} %", value));
  }
}

void mark_accuracies(Svg& svg, const support::Curve& accuracies, const Axis& x, const Axis& y) {
  svg.curve(accuracies, x, y, kAccuracyColor, R"(stroke-width="2" stroke-dasharray="5 4")");
  for (const Point& point : accuracies) {
    svg.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4.5" fill="#ffffff" stroke="{}" stroke-width="2"/>)",
            x(point.at), y(point.value), kAccuracyColor);
    // Points are hardly further apart than their labels where there are many; the last is the one that
    // counts.
    if (accuracies.size() > 12 && &point != &accuracies.back()) continue;
    svg.label(std::min(x(point.at), Svg::kRight - 22), y(point.value) - 12, "middle", kAccuracyColor,
              fmt::format("{:.1f}", point.value), 12);
  }
}

}  // namespace

std::string draw_chart(const History& history) {
  Svg svg(title(history), subtitle(history));
  const double epochs = std::max(last_epoch(history.losses), last_epoch(history.accuracies));
  const Axis x{0, epochs > 0 ? epochs : 1, Svg::kLeft, Svg::kRight};
  double highest = 0.1;
  for (const Point& point : history.losses) {
    if (std::isfinite(point.value)) highest = std::max(highest, point.value);
  }
  const double loss_step = tick(highest, 5);
  const Axis loss{0, std::ceil(highest / loss_step - 1e-9) * loss_step, Svg::kBottom, Svg::kTop};
  double accuracy_step = 0;
  const Axis accuracy = accuracy_axis(history.accuracies, accuracy_step);

  svg.left_grid(loss, loss_step, kLossColor);
  right_axis(svg, accuracy, accuracy_step);
  svg.bottom_axis(x, std::max(tick(x.high, 10), x.high >= 3 ? 1.0 : 0.0), "epoch");
  svg.upright(24, kLossColor, "training loss");
  svg.upright(846, kAccuracyColor, "test accuracy");
  if (!history.losses.empty()) {
    svg.curve(history.losses, x, loss, kLossColor, R"(stroke-width="1" opacity="0.3")");
    svg.curve(support::smooth(history.losses), x, loss, kLossColor,
              R"(stroke-width="2.2" stroke-linejoin="round")");
  }
  if (!history.accuracies.empty()) mark_accuracies(svg, history.accuracies, x, accuracy);
  return std::move(svg).text();
}

}  // namespace fashion_mnist
