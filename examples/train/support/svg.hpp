// A chart as SVG: axes, grid, curves and labels.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

#include "support/curve.hpp"

namespace support {

/// Values from `low` to `high` on pixels from `from` to `to`; a value outside is drawn at the nearer end.
struct Axis {
  double low, high, from, to;
  double operator()(double value) const;
};

/// The least of 1, 2, 2.5, 5 times a power of ten that cuts `span` into at most `parts`.
double tick(double span, int parts);

/// What a line or a text is for: the style sheet of the picture has a colour for each, on light and on dark.
enum class Tone { ink, quiet, first, second };

/// A self-contained picture with a plot between the four edges, narrow enough to be read on a telephone.
class Svg {
 public:
  static constexpr double kWidth = 540, kHeight = 430;
  static constexpr double kLeft = 62, kRight = 462, kTop = 82, kBottom = 368;

  Svg(const std::string& title, const std::string& subtitle);

  template <typename... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    text_ += '\n';
  }

  /// A rim in the colour of the paper keeps the text legible where it meets a curve.
  void label(double x, double y, const char* anchor, Tone tone, const std::string& text, int size = 14);
  /// The name of a vertical axis, at the left edge or the right one.
  void upright(double x, Tone tone, const char* text);
  /// Lines across the plot at each multiple of `step`, with their values at the left.
  void left_grid(const Axis& axis, double step, Tone tone);
  /// The line below the plot, with its values; `text` names it.
  void bottom_axis(const Axis& axis, double step, const char* text);
  /// Leaves out values that are not finite. `style` holds the attributes of the line.
  void curve(const Curve& points, const Axis& x, const Axis& y, Tone tone, const char* style);
  /// A circle around a measured point.
  void mark(double x, double y, Tone tone);
  /// The next line of the legend in the upper right corner: a piece of a curve in this style, and what it is.
  void explain(Tone tone, const char* style, const std::string& text);
  /// The next line of the legend, without a piece of a curve.
  void explain(const std::string& text);

  std::string text() && { return std::move(text_) + "</svg>\n"; }

 private:
  std::string text_;
  int explained_ = 0;
};

}  // namespace support
