// The picture of a training run: loss against epochs on the left axis, test accuracy on the right one.
#pragma once

#include <string>

#include "fashion_mnist/history.hpp"
#include "support/other_run.hpp"

namespace fashion_mnist {

/// A self-contained SVG, with the curves of another run under those of this one.
std::string draw_chart(const History& history, const support::OtherRun& other);

}  // namespace fashion_mnist
