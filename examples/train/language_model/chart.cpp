#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "language_model/report.hpp"
#include "support/summary_table.hpp"
#include "support/svg.hpp"

namespace language_model {
namespace {

using support::Axis;
using support::Curve;
using support::Svg;

constexpr const char* kColor = "#1f6fb2";
constexpr const char* kOtherColor = "#c2571a";
/// What a byte costs whoever knows nothing is 8 bits: the steps down from there are over soon.
constexpr double kMostBits = 5;

std::string ranks(int count) {
  return fmt::format("{} {}", count, count == 1 ? "rank" : "ranks");
}

void draw(Svg& svg, const OtherRun& run, const Axis& x, const Axis& y, const char* color, bool is_dashed) {
  const char* dashes = is_dashed ? R"( stroke-dasharray="6 4")" : "";
  svg.curve(run.losses, x, y, color, R"(stroke-width="1" opacity="0.25")");
  svg.curve(support::smooth(run.losses), x, y, color,
            fmt::format(R"(stroke-width="2.2" stroke-linejoin="round"{})", dashes).c_str());
  for (const support::Point& point : run.held_out) {
    svg.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4.5" fill="#ffffff" stroke="{}" stroke-width="2"/>)",
            x(point.at), y(point.value), color);
  }
}

/// The legend, below one another in the upper right corner.
void explain(Svg& svg, int line, const char* color, bool is_dashed, const std::string& text) {
  const double y = Svg::kTop + 18 + 22 * line;
  svg.add(R"(<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}" stroke-width="2.2"{}/>)", Svg::kRight - 230,
          y - 4, Svg::kRight - 196, y - 4, color, is_dashed ? R"( stroke-dasharray="6 4")" : "");
  svg.label(Svg::kRight - 188, y, "start", Svg::kInk, text);
}

}  // namespace

OtherRun read_run(const std::string& path) {
  if (path.empty()) return {};
  try {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot be read");
    const auto json = nlohmann::json::parse(file);
    return {json.at("ranks").get<int>(), support::curve_of(json.at("loss")),
            support::curve_of(json.at("held_out"))};
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

std::string draw_chart(const History& history, const OtherRun& other) {
  const OtherRun own{history.ranks, history.losses, history.held_out};
  double lowest = kMostBits, steps = 1;
  for (const OtherRun* run : {&own, &other}) {
    for (const Curve* curve : {&run->losses, &run->held_out}) {
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
  if (!history.held_out.empty())
    subtitle += fmt::format(", {:.3f} bits per byte of the held-out text", history.held_out.back().value);
  Svg svg("Language model of bytes on " + ranks(history.ranks), subtitle);
  svg.left_grid(y, tick, Svg::kInk);
  svg.bottom_axis(x, support::tick(x.high, 10), "step");
  svg.upright(24, Svg::kInk, "bits per byte");
  if (other.ranks > 0) draw(svg, other, x, y, kOtherColor, true);
  draw(svg, own, x, y, kColor, false);
  if (!history.held_out.empty()) {
    svg.label(Svg::kRight - 4, y(history.held_out.back().value) - 12, "end", kColor,
              fmt::format("{:.3f}", history.held_out.back().value));
  }
  explain(svg, 0, kColor, false, ranks(history.ranks) + ", training");
  if (other.ranks > 0) explain(svg, 1, kOtherColor, true, ranks(other.ranks) + ", training");
  svg.label(Svg::kRight - 188, Svg::kTop + (other.ranks == 0 ? 40 : 62), "start", Svg::kInk,
            "circles: held-out text");
  return std::move(svg).text();
}

}  // namespace language_model
