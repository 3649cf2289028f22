#include "support/svg.hpp"

#include <algorithm>
#include <cmath>

namespace support {
namespace {

/// 20000 as 20,000: steps are many.
std::string number(double value) {
  value += 0.0;  // minus zero is zero
  std::string text = fmt::format("{:g}", value);
  if (text.find_first_not_of("0123456789") != std::string::npos) return text;
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

const char* name_of(Tone tone) {
  switch (tone) {
    case Tone::ink:
      return "ink";
    case Tone::quiet:
      return "quiet";
    case Tone::first:
      return "first";
    case Tone::second:
      return "second";
  }
  return "";
}

constexpr const char* kStyle = R"(<style>
text { stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round; paint-order: stroke; }
.title { font-size: 18px; font-weight: 600; fill: #1c2733; }
.paper { fill: #ffffff; }
.grid { stroke: #e4e8ec; }
.axis { stroke: #8a96a3; }
.line { fill: none; }
.mark { fill: #ffffff; stroke-width: 2px; }
.ink { fill: #3b4855; }
.quiet { fill: #5b6875; }
.first { fill: #1f6fb2; }
.second { fill: #c2571a; }
.first-line { stroke: #1f6fb2; }
.second-line { stroke: #c2571a; }
@media (prefers-color-scheme: dark) {
text { stroke: #0d1117; }
.title { fill: #e6edf3; }
.paper { fill: #0d1117; }
.grid { stroke: #2d333b; }
.axis { stroke: #9aa5b1; }
.mark { fill: #0d1117; }
.ink { fill: #d0d7de; }
.quiet { fill: #9aa5b1; }
.first { fill: #62b0ee; }
.second { fill: #f08c4f; }
.first-line { stroke: #62b0ee; }
.second-line { stroke: #f08c4f; }
}
</style>)";

}  // namespace

double Axis::operator()(double value) const {
  const double share = std::clamp((value - low) / (high - low), 0.0, 1.0);
  return from + share * (to - from);
}

double tick(double span, int parts) {
  const double least = span / parts;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

Svg::Svg(const std::string& title, const std::string& subtitle) {
  add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
      R"(font-family="system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif">)",
      kWidth, kHeight);
  add("{}", kStyle);
  add(R"(<rect class="paper" width="{}" height="{}"/>)", kWidth, kHeight);
  add(R"(<text class="title" x="14" y="30">{}</text>)", title);
  label(14, 54, "start", Tone::quiet, subtitle);
}

void Svg::label(double x, double y, const char* anchor, Tone tone, const std::string& text, int size) {
  add(R"(<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}" font-size="{}">{}</text>)", name_of(tone), x,
      y, anchor, size, text);
}

void Svg::upright(double x, Tone tone, const char* text) {
  const double y = (kTop + kBottom) / 2;
  add(R"svg(<text class="{2}" x="{0}" y="{1}" transform="rotate(-90 {0} {1})" text-anchor="middle" )svg"
      R"svg(font-size="14">{3}</text>)svg",
      x, y, name_of(tone), text);
}

void Svg::left_grid(const Axis& axis, double step, Tone tone) {
  for (double value = std::ceil(axis.low / step - 1e-9) * step; value <= axis.high * (1 + 1e-9);
       value += step) {
    add(R"(<line class="grid" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}"/>)", kLeft, axis(value), kRight,
        axis(value));
    label(kLeft - 10, axis(value) + 4.5, "end", tone, number(value));
  }
}

void Svg::bottom_axis(const Axis& axis, double step, const char* text) {
  for (double value = 0; value <= axis.high * (1 + 1e-9); value += step) {
    add(R"(<line class="axis" x1="{:.1f}" y1="{}" x2="{:.1f}" y2="{}"/>)", axis(value), kBottom, axis(value),
        kBottom + 5);
    label(axis(value), kBottom + 22, "middle", Tone::ink, number(value));
  }
  add(R"(<line class="axis" x1="{}" y1="{}" x2="{}" y2="{}"/>)", kLeft, kBottom, kRight, kBottom);
  label((kLeft + kRight) / 2, kBottom + 46, "middle", Tone::ink, text, 14);
}

void Svg::curve(const Curve& points, const Axis& x, const Axis& y, Tone tone, const char* style) {
  std::string path;
  for (const Point& point : points) {
    if (!std::isfinite(point.value)) continue;
    fmt::format_to(std::back_inserter(path), "{}{:.1f},{:.1f}", path.empty() ? "M" : " L", x(point.at),
                   y(point.value));
  }
  add(R"(<path class="line {}-line" d="{}" {}/>)", name_of(tone), path, style);
}

void Svg::mark(double x, double y, Tone tone) {
  add(R"(<circle class="mark {}-line" cx="{:.1f}" cy="{:.1f}" r="4.5" />)", name_of(tone), x, y);
}

void Svg::explain(Tone tone, const char* style, const std::string& text) {
  const double y = kTop + 18 + 22 * explained_;
  add(R"(<path class="line {}-line" d="M{:.1f},{:.1f} h34" {}/>)", name_of(tone), kRight - 204, y - 4, style);
  explain(text);
}

void Svg::explain(const std::string& text) {
  label(kRight - 162, kTop + 18 + 22 * explained_++, "start", Tone::ink, text);
}

}  // namespace support
