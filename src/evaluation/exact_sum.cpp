#include "evaluation/exact_sum.hpp"

#include <cstddef>

namespace kolo::evaluation {

void ExactSum::add(double number) {
  std::size_t kept = 0;
  for (const double part : parts_) {
    // Knuth's two-sum: `sum` and `error` together are exactly number + part, whichever of the two is larger.
    const double sum = number + part;
    const double of_part = sum - number;
    const double error = (number - (sum - of_part)) + (part - of_part);
    if (error != 0) parts_[kept++] = error;
    number = sum;
  }
  parts_.resize(kept);
  parts_.push_back(number);
}

double ExactSum::value() const {
  double sum = 0;
  for (std::size_t i = parts_.size(); i-- > 0;) {
    const double larger = sum;
    sum += parts_[i];
    const double lost = parts_[i] - (sum - larger);
    if (lost == 0) continue;
    // All parts that are left are smaller than half a unit in the last place of the sum. They count only if
    // the lost part is exactly that half: the sum was then rounded to the even neighbour, and the sign of the
    // rest decides which neighbour is right.
    const double other = sum + 2 * lost;
    if (i > 0 && (parts_[i - 1] < 0) == (lost < 0) && other - sum == 2 * lost) sum = other;
    break;
  }
  return sum;
}

}  // namespace kolo::evaluation
