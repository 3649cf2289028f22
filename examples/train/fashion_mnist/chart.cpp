#include "fashion_mnist/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace fashion_mnist {
namespace {

constexpr double kWidth = 860, kHeight = 480;
constexpr double kLeft = 78, kRight = 782, kTop = 92, kBottom = 414;
constexpr const char* kLossColor = "#1f6fb2";
constexpr const char* kAccuracyColor = "#c2571a";

/// Values from `low` to `high` on pixels from `from` to `to`.
struct Axis {
  double low, high, from, to;
  double operator()(double value) const {
    const double share = std::clamp((value - low) / (high - low), 0.0, 1.0);
    return from + share * (to - from);
  }
};

/// The least of 1, 2, 2.5, 5 times a power of ten that cuts `span` into at most `parts`.
double tick(double span, int parts) {
  const double least = span / parts;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// The loss jumps from batch to batch: the eye wants a mean over the neighbours.
std::vector<Point> smooth(const std::vector<Point>& points) {
  const auto reach = static_cast<std::ptrdiff_t>(points.size() / 60);
  std::vector<Point> result;
  for (std::ptrdiff_t i = 0; i < std::ssize(points); ++i) {
    // As many on both sides, so that the ends are not drawn towards the middle.
    const std::ptrdiff_t near = std::min({reach, i, std::ssize(points) - 1 - i});
    double sum = 0;
    for (std::ptrdiff_t k = i - near; k <= i + near; ++k) sum += points[static_cast<std::size_t>(k)].value;
    result.push_back({points[static_cast<std::size_t>(i)].epoch, sum / static_cast<double>(2 * near + 1)});
  }
  return result;
}

class Chart {
 public:
  explicit Chart(const History& history) : history_(history) {
    const double epochs = std::max(history.losses.empty() ? 0.0 : history.losses.back().epoch,
                                   history.accuracies.empty() ? 0.0 : history.accuracies.back().epoch);
    x_ = {0, epochs > 0 ? epochs : 1, kLeft, kRight};
    double highest = 0.1;
    for (const Point& point : history.losses) {
      if (std::isfinite(point.value)) highest = std::max(highest, point.value);
    }
    const double loss_step = tick(highest, 5);
    loss_ = {0, std::ceil(highest / loss_step - 1e-9) * loss_step, kBottom, kTop};
    double lowest = 100;
    for (const Point& point : history.accuracies) lowest = std::min(lowest, point.value);
    const double accuracy_step = tick(std::max(100 - lowest, 5.0), 5);
    accuracy_ = {std::max(0.0, 100 - accuracy_step * std::ceil((100 - lowest) / accuracy_step + 0.25)), 100,
                 kBottom, kTop};
    frame(loss_step, accuracy_step);
    curves();
  }

  std::string text() && { return std::move(svg_) + "</svg>\n"; }

 private:
  template <typename... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Arguments>(arguments)...);
    svg_ += '\n';
  }

  /// A white rim keeps the text legible where it meets a curve.
  void label(double x, double y, const char* anchor, const char* color, const std::string& text,
             int size = 13) {
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="{}" font-size="{}" stroke="#ffffff" stroke-width="4" )"
        R"(stroke-linejoin="round" paint-order="stroke">{}</text>)",
        x, y, anchor, color, size, text);
  }

  void frame(double loss_step, double accuracy_step) {
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
        R"(font-family="system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif">)",
        kWidth, kHeight);
    add(R"(<rect width="{}" height="{}" fill="#ffffff"/>)", kWidth, kHeight);
    add(R"(<text x="{}" y="34" font-size="19" font-weight="600" fill="#1c2733">Fashion-MNIST on {} {}</text>)",
        kLeft, history_.ranks, history_.ranks == 1 ? "rank" : "ranks");
    label(kLeft, 57, "start", "#5b6875", subtitle());
    for (double v = 0; v <= loss_.high * (1 + 1e-9); v += loss_step) {
      add(R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="#e4e8ec"/>)", kLeft, loss_(v), kRight,
          loss_(v));
      label(kLeft - 10, loss_(v) + 4.5, "end", kLossColor, fmt::format("{:g}", v));
    }
    for (double v = 100; v >= accuracy_.low - 1e-9; v -= accuracy_step) {
      add(R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="{}"/>)", kRight, accuracy_(v), kRight + 5,
          accuracy_(v), kAccuracyColor);
      label(kRight + 10, accuracy_(v) + 4.5, "start", kAccuracyColor, fmt::format("{:g} %", v));
    }
    const double epoch_step = std::max(tick(x_.high, 10), x_.high >= 3 ? 1.0 : 0.0);
    for (double v = 0; v <= x_.high * (1 + 1e-9); v += epoch_step) {
      add(R"(<line x1="{:.1f}" y1="{}" x2="{:.1f}" y2="{}" stroke="#8a96a3"/>)", x_(v), kBottom, x_(v),
          kBottom + 5);
      label(x_(v), kBottom + 22, "middle", "#3b4855", fmt::format("{:g}", v));
    }
    add(R"(<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="#8a96a3"/>)", kLeft, kBottom, kRight, kBottom);
    label((kLeft + kRight) / 2, kBottom + 46, "middle", "#3b4855", "epoch", 14);
    upright(24, kLossColor, "training loss");
    upright(846, kAccuracyColor, "test accuracy");
  }

  void upright(double x, const char* color, const char* text) {
    const double y = (kTop + kBottom) / 2;
    add(R"svg(<text x="{0}" y="{1}" transform="rotate(-90 {0} {1})" text-anchor="middle" fill="{2}" )svg"
        R"svg(font-size="14">{3}</text>)svg",
        x, y, color, text);
  }

  std::string subtitle() const {
    std::string text = fmt::format("{} steps in {:.0f} s", history_.steps, history_.total_seconds);
    if (!history_.losses.empty()) text += fmt::format(", loss {:.3f}", smooth(history_.losses).back().value);
    if (!history_.accuracies.empty()) {
      text += fmt::format(", test accuracy {:.2f} %", history_.accuracies.back().value);
    }
    return text;
  }

  std::string path(const std::vector<Point>& points, const Axis& y) const {
    std::string result;
    for (const Point& point : points) {
      if (!std::isfinite(point.value)) continue;
      fmt::format_to(std::back_inserter(result), "{}{:.1f},{:.1f}", result.empty() ? "M" : " L",
                     x_(point.epoch), y(point.value));
    }
    return result;
  }

  void curves() {
    if (!history_.losses.empty()) {
      add(R"(<path d="{}" fill="none" stroke="{}" stroke-width="1" opacity="0.3"/>)",
          path(history_.losses, loss_), kLossColor);
      add(R"(<path d="{}" fill="none" stroke="{}" stroke-width="2.2" stroke-linejoin="round"/>)",
          path(smooth(history_.losses), loss_), kLossColor);
    }
    if (history_.accuracies.empty()) return;
    add(R"(<path d="{}" fill="none" stroke="{}" stroke-width="2" stroke-dasharray="5 4"/>)",
        path(history_.accuracies, accuracy_), kAccuracyColor);
    for (const Point& point : history_.accuracies) {
      add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4.5" fill="#ffffff" stroke="{}" stroke-width="2"/>)",
          x_(point.epoch), accuracy_(point.value), kAccuracyColor);
      // Points are hardly further apart than their labels where there are many; the last is the one that
      // counts.
      if (history_.accuracies.size() > 12 && &point != &history_.accuracies.back()) continue;
      label(std::min(x_(point.epoch), kRight - 22), accuracy_(point.value) - 12, "middle", kAccuracyColor,
            fmt::format("{:.1f}", point.value), 12);
    }
  }

  const History& history_;
  Axis x_{}, loss_{}, accuracy_{};
  std::string svg_;
};

}  // namespace

std::string draw_chart(const History& history) {
  return Chart(history).text();
}

}  // namespace fashion_mnist
