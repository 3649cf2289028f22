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
  add(R"(<rect width="{}" height="{}" fill="#ffffff"/>)", kWidth, kHeight);
  add(R"(<text x="{}" y="34" font-size="19" font-weight="600" fill="#1c2733">{}</text>)", kLeft, title);
  label(kLeft, 57, "start", "#5b6875", subtitle);
}

void Svg::label(double x, double y, const char* anchor, const char* color, const std::string& text,
                int size) {
  add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="{}" font-size="{}" stroke="#ffffff" stroke-width="4" )"
      R"(stroke-linejoin="round" paint-order="stroke">{}</text>)",
      x, y, anchor, color, size, text);
}

void Svg::upright(double x, const char* color, const char* text) {
  const double y = (kTop + kBottom) / 2;
  add(R"svg(<text x="{0}" y="{1}" transform="rotate(-90 {0} {1})" text-anchor="middle" fill="{2}" )svg"
      R"svg(font-size="14">{3}</text>)svg",
      x, y, color, text);
}

void Svg::left_grid(const Axis& axis, double step, const char* color) {
  for (double value = std::ceil(axis.low / step - 1e-9) * step; value <= axis.high * (1 + 1e-9);
       value += step) {
    add(R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="#e4e8ec"/>)", kLeft, axis(value), kRight,
        axis(value));
    label(kLeft - 10, axis(value) + 4.5, "end", color, number(value));
  }
}

void Svg::bottom_axis(const Axis& axis, double step, const char* text) {
  for (double value = 0; value <= axis.high * (1 + 1e-9); value += step) {
    add(R"(<line x1="{:.1f}" y1="{}" x2="{:.1f}" y2="{}" stroke="#8a96a3"/>)", axis(value), kBottom,
        axis(value), kBottom + 5);
    label(axis(value), kBottom + 22, "middle", kInk, number(value));
  }
  add(R"(<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="#8a96a3"/>)", kLeft, kBottom, kRight, kBottom);
  label((kLeft + kRight) / 2, kBottom + 46, "middle", kInk, text, 14);
}

void Svg::curve(const Curve& points, const Axis& x, const Axis& y, const char* color, const char* style) {
  std::string path;
  for (const Point& point : points) {
    if (!std::isfinite(point.value)) continue;
    fmt::format_to(std::back_inserter(path), "{}{:.1f},{:.1f}", path.empty() ? "M" : " L", x(point.at),
                   y(point.value));
  }
  add(R"(<path d="{}" fill="none" stroke="{}" {}/>)", path, color, style);
}

}  // namespace support
