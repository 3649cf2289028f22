// The picture of a training run: loss against epochs on the left axis, test accuracy on the right one.
#pragma once

#include <string>

#include "fashion_mnist/history.hpp"

namespace fashion_mnist {

/// A self-contained SVG of 860 x 480.
std::string draw_chart(const History& history);

}  // namespace fashion_mnist
