#include "draw/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "algorithms/formula.hpp"
#include "schedule/checker.hpp"
#include "schedule/lengths.hpp"

namespace kolo::draw {
namespace {

/// A colour of Oklab given by lightness, chroma and hue (in turns), as "#rrggbb". Björn Ottosson: A
/// perceptual color space for image processing (2020). Equal steps of hue look equally different there.
std::string colour(double lightness, double chroma, double hue) {
  const double a = chroma * std::cos(2 * std::numbers::pi * hue);
  const double b = chroma * std::sin(2 * std::numbers::pi * hue);
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  const auto channel = [](double linear) {
    const double clamped = std::clamp(linear, 0.0, 1.0);
    const double value = clamped <= 0.0031308 ? 12.92 * clamped : 1.055 * std::pow(clamped, 1 / 2.4) - 0.055;
    return static_cast<int>(std::lround(255 * value));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
                     channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
                     channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s));
}

/// Colours around the circle of hues. Adjacent colours also differ in lightness, for the colour-blind.
std::vector<std::string> colours(std::size_t count) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < count; ++i) {
    const double hue = 0.08 + static_cast<double>(i) / static_cast<double>(count);
    result.push_back(colour(i % 2 == 0 ? 0.66 : 0.77, 0.15, hue));
  }
  return result;
}

}  // namespace

Least least_of(schedule::Collective collective, int ranks) {
  const schedule::CollectiveTraits& traits = schedule::traits_of(collective);
  const double others = (ranks - 1.0) / ranks;
  Least least{algorithms::ceil_log2(static_cast<std::uint64_t>(ranks)), "", 0};
  if (collective == schedule::Collective::all_reduce) {
    least.through = "2(N-1)/N n";
    least.through_of_whole = 2 * others;
  } else if (traits.input == schedule::Parts::per_rank || traits.output == schedule::Parts::per_rank) {
    // Each rank (or the root) sends to, or receives from, N-1 ranks.
    least.through = "(N-1)/N n";
    least.through_of_whole = others;
  } else if (traits.input == schedule::Parts::chunks) {
    least.through = "n";
    least.through_of_whole = ranks > 1 ? 1 : 0;
  }
  return least;
}

std::string Picture::title() const {
  const int hosts = spec.hosts.empty() ? 1 : std::ranges::max(spec.hosts) + 1;
  return fmt::format("{}: {}, {} rank{}{}", schedule::name_of(collective()), configured.name(), spec.size,
                     spec.size == 1 ? "" : "s", hosts == 1 ? "" : fmt::format(" on {} hosts", hosts));
}

std::string Picture::of_whole(std::uint64_t chunks) const {
  if (collective() == schedule::Collective::barrier) return "0";
  return fmt::format("{:.4g} n", static_cast<double>(chunks) / frames.parts);
}

Result<Picture> make_picture(const algorithms::ConfiguredAlgorithm& configured,
                             const algorithms::ScheduleSpec& spec) {
  const algorithms::Algorithm& algorithm = *configured.algorithm;
  if (Status status = algorithms::supports(algorithm, spec); !status.ok()) return status;
  if (spec.size > kMostRanks) {
    return Status(Code::invalid_argument,
                  fmt::format("{} ranks are too many to draw: {} are the most", spec.size, kMostRanks));
  }
  const std::vector<schedule::Schedule> schedules = algorithms::generate_all(algorithm, spec);
  const std::vector<std::uint64_t> counts(schedule::part_count(schedules[0]), 1);
  schedule::ScheduleTotals totals;
  if (Status status = schedule::check_schedules(schedules, counts, algorithm.rank_ordered, &totals);
      !status.ok()) {
    return status.prefixed("the checker refuses it");
  }
  if (totals.messages > kMostMessages) {
    return Status(Code::invalid_argument,
                  fmt::format("its {} messages are too many to draw: {} are the most; take fewer ranks",
                              totals.messages, kMostMessages));
  }
  Picture picture;
  picture.configured = configured;
  picture.spec = spec;
  picture.stated = algorithm.closed_form.of(spec);
  picture.least = least_of(algorithm.collective, spec.size);
  picture.frames = play(schedules);
  find_phases(picture.frames, algorithm.collective, spec.hosts);
  picture.runs = runs_of(picture.frames);
  picture.layout = layout_of(picture.frames, spec.hosts, picture.root());
  picture.slot_per_rank = schedule::is_reducing(algorithm.collective) ||
                          algorithm.collective == schedule::Collective::all_to_all ||
                          algorithm.collective == schedule::Collective::barrier;
  picture.colour_per_part = schedule::traits_of(algorithm.collective).input_at_root;
  picture.colours =
      colours(picture.colour_per_part ? picture.frames.parts : static_cast<std::size_t>(spec.size));
  return picture;
}

}  // namespace kolo::draw
