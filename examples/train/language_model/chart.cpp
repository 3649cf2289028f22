#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "language_model/report.hpp"
#include "support/summary_table.hpp"
#include "support/svg.hpp"

namespace language_model {
namespace {

using support::Axis;
using support::Curve;
using support::OtherRun;
using support::ranks_text;
using support::Svg;
using support::Tone;

constexpr const char* kStyle = R"(stroke-width="2.2" stroke-linejoin="round")";
constexpr const char* kOtherStyle = R"(stroke-width="2.2" stroke-linejoin="round" stroke-dasharray="6 4")";
/// An untrained model needs 8 bits for a byte; the steps down from there are over soon.
constexpr double kMostBits = 5;

void draw(Svg& svg, const OtherRun& run, const Axis& x, const Axis& y, Tone tone, const char* style) {
  svg.curve(run.losses, x, y, tone, R"(stroke-width="1" opacity="0.25")");
  svg.curve(support::smooth(run.losses), x, y, tone, style);
  for (const support::Point& point : run.evaluations) svg.mark(x(point.at), y(point.value), tone);
}

}  // namespace

std::string draw_chart(const History& history, const OtherRun& other) {
  const OtherRun own{history.ranks, history.losses, history.evaluations};
  double lowest = kMostBits, steps = 1;
  for (const OtherRun* run : {&own, &other}) {
    for (const Curve* curve : {&run->losses, &run->evaluations}) {
      for (const support::Point& point : *curve) {
        if (std::isfinite(point.value)) lowest = std::min(lowest, point.value);
        steps = std::max(steps, point.at);
      }
    }
  }
  const double tick = 0.5;
  const Axis x{0, steps, Svg::kLeft, Svg::kRight};
  const Axis y{std::floor(lowest / tick) * tick, kMostBits, Svg::kBottom, Svg::kTop};

  std::string subtitle =
      fmt::format("{} parameters, {:.0f} s of training",
                  support::grouped(static_cast<double>(history.parameters)), history.training_seconds);
  if (!history.evaluations.empty())
    subtitle += fmt::format(", {:.3f} bits per byte held out", history.evaluations.back().value);
  Svg svg("Language model of bytes on " + ranks_text(history.ranks), subtitle);
  svg.left_grid(y, tick, Tone::ink);
  svg.bottom_axis(x, support::tick(x.high, 10), "step");
  svg.upright(20, Tone::ink, "bits per byte");
  if (other.ranks > 0) draw(svg, other, x, y, Tone::second, kOtherStyle);
  draw(svg, own, x, y, Tone::first, kStyle);
  if (!history.evaluations.empty()) {
    svg.label(Svg::kRight - 4, y(history.evaluations.back().value) - 12, "end", Tone::first,
              fmt::format("{:.3f}", history.evaluations.back().value));
  }
  svg.explain(Tone::first, kStyle, ranks_text(history.ranks) + ", training");
  if (other.ranks > 0) svg.explain(Tone::second, kOtherStyle, ranks_text(other.ranks) + ", training");
  svg.explain("circles: held-out text");
  return std::move(svg).text();
}

}  // namespace language_model
