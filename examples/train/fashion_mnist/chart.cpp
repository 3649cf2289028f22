#include "fashion_mnist/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "support/summary_table.hpp"
#include "support/svg.hpp"

namespace fashion_mnist {
namespace {

using support::Axis;
using support::OtherRun;
using support::Point;
using support::ranks_text;
using support::Svg;
using support::tick;
using support::Tone;

constexpr Tone kLoss = Tone::first, kAccuracy = Tone::second;
constexpr const char* kLossStyle = R"(stroke-width="2.2" stroke-linejoin="round")";
constexpr const char* kAccuracyStyle = R"(stroke-width="2" stroke-dasharray="5 4")";
/// A wide band, so that it shows on both sides of a curve that covers it.
constexpr const char* kOtherStyle =
    R"(stroke-width="7" stroke-linejoin="round" stroke-linecap="round" opacity="0.3")";

double last_epoch(const support::Curve& curve) {
  return curve.empty() ? 0 : curve.back().at;
}

std::string subtitle(const History& history) {
  std::string text = fmt::format("{} steps", support::grouped(static_cast<double>(history.steps)));
  if (!history.losses.empty())
    text += fmt::format(", training loss {:.3f}", support::smooth(history.losses).back().value);
  if (!history.evaluations.empty())
    text += fmt::format(", test accuracy {:.2f} %", history.evaluations.back().value);
  return text;
}

/// 100 % is at the top.
Axis accuracy_axis(const support::Curve& accuracies, const support::Curve& others, double& step) {
  double lowest = 100;
  for (const support::Curve* curve : {&accuracies, &others}) {
    for (const Point& point : *curve) lowest = std::min(lowest, point.value);
  }
  step = tick(std::max(100 - lowest, 5.0), 5);
  return {std::max(0.0, 100 - step * std::ceil((100 - lowest) / step + 0.25)), 100, Svg::kBottom, Svg::kTop};
}

void right_axis(Svg& svg, const Axis& axis, double step) {
  for (double value = 100; value >= axis.low - 1e-9; value -= step) {
    svg.add(R"(<line class="second-line" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}"/>)", Svg::kRight,
            axis(value), Svg::kRight + 5, axis(value));
    svg.label(Svg::kRight + 10, axis(value) + 4.5, "start", kAccuracy, fmt::format("{:g} %", value));
  }
}

void mark_accuracies(Svg& svg, const support::Curve& accuracies, const Axis& x, const Axis& y) {
  svg.curve(accuracies, x, y, kAccuracy, kAccuracyStyle);
  for (const Point& point : accuracies) {
    svg.mark(x(point.at), y(point.value), kAccuracy);
    // Points are hardly further apart than their labels where there are many; the last is the one that
    // counts.
    if (accuracies.size() > 12 && &point != &accuracies.back()) continue;
    svg.label(std::min(x(point.at), Svg::kRight - 22), y(point.value) - 12, "middle", kAccuracy,
              fmt::format("{:.1f}", point.value), 13);
  }
}

}  // namespace

std::string draw_chart(const History& history, const OtherRun& other) {
  Svg svg("Fashion-MNIST on " + ranks_text(history.ranks), subtitle(history));
  const double epochs = std::max({last_epoch(history.losses), last_epoch(history.evaluations),
                                  last_epoch(other.losses), last_epoch(other.evaluations)});
  const Axis x{0, epochs > 0 ? epochs : 1, Svg::kLeft, Svg::kRight};
  double highest = 0.1;
  for (const support::Curve* losses : {&history.losses, &other.losses}) {
    for (const Point& point : *losses) {
      if (std::isfinite(point.value)) highest = std::max(highest, point.value);
    }
  }
  const double loss_step = tick(highest, 5);
  const Axis loss{0, std::ceil(highest / loss_step - 1e-9) * loss_step, Svg::kBottom, Svg::kTop};
  double accuracy_step = 0;
  const Axis accuracy = accuracy_axis(history.evaluations, other.evaluations, accuracy_step);

  svg.left_grid(loss, loss_step, kLoss);
  right_axis(svg, accuracy, accuracy_step);
  svg.bottom_axis(x, std::max(tick(x.high, 10), x.high >= 3 ? 1.0 : 0.0), "epoch");
  svg.upright(20, kLoss, "training loss (cross entropy)");
  svg.upright(530, kAccuracy, "test accuracy");
  if (other.ranks > 0) {
    svg.curve(support::smooth(other.losses), x, loss, kLoss, kOtherStyle);
    svg.curve(other.evaluations, x, accuracy, kAccuracy, kOtherStyle);
  }
  if (!history.losses.empty()) {
    svg.curve(history.losses, x, loss, kLoss, R"(stroke-width="1" opacity="0.3")");
    svg.curve(support::smooth(history.losses), x, loss, kLoss, kLossStyle);
  }
  if (!history.evaluations.empty()) mark_accuracies(svg, history.evaluations, x, accuracy);
  const auto explain = [&](int ranks, const char* loss_style, const char* accuracy_style) {
    svg.explain(kLoss, loss_style, ranks_text(ranks) + ", training loss");
    svg.explain(kAccuracy, accuracy_style, ranks_text(ranks) + ", test accuracy");
  };
  explain(history.ranks, kLossStyle, kAccuracyStyle);
  if (other.ranks > 0) explain(other.ranks, kOtherStyle, kOtherStyle);
  return std::move(svg).text();
}

}  // namespace fashion_mnist
